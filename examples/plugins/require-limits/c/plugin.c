/* A plugin of Proa that refuses pods whose containers do not say how much
 * memory and processor they may use. Settings, all optional:
 *
 *	{"resources": ["memory", "cpu"], "exemptImages": ["registry.example/debug:"]}
 */
#include "../../../../wasmplugins/guest/c/proa.h"

/* The settings; they lie where configure found them. */
static proa_value required, exempt;

static const char *configure(proa_value settings) {
	required = proa_get(settings, "resources");
	exempt = proa_get(settings, "exemptImages");
	if (proa_missing(required))
		required = proa_parse("[\"memory\",\"cpu\"]");
	else if (!proa_is_array(required) || proa_len(required) == 0)
		return "resources must be a list of names";
	return 0;
}
PROA_ON_CONFIGURE(configure)

static bool is_exempt(proa_value container) {
	proa_str image = proa_string(proa_get(container, "image"));
	for (proa_iter i = proa_items(exempt); proa_next(&i);)
		if (proa_has_prefix(image, proa_string(i.value))) return true;
	return false;
}

static void check(proa_value containers, proa_buffer *missing) {
	for (proa_iter c = proa_items(containers); proa_next(&c);) {
		proa_value limits = proa_get(c.value, "resources", "limits");
		for (proa_iter i = proa_items(required); proa_next(&i);) {
			proa_str name = proa_string(i.value);
			if (!proa_is_null(proa_field(limits, name)) || is_exempt(c.value)) continue;
			proa_put(missing, missing->n ? "; container " : "container ");
			proa_put(missing, proa_string(proa_get(c.value, "name")));
			proa_put(missing, " has no ");
			proa_put(missing, name);
			proa_put(missing, " limit");
		}
	}
}

static proa_answer admit(const proa_request *r) {
	proa_value spec = proa_get(r->object, "spec");
	proa_buffer missing = {0};
	check(proa_get(spec, "initContainers"), &missing);
	check(proa_get(spec, "containers"), &missing);
	return missing.n ? proa_deny(proa_str_of(&missing)) : proa_allow();
}
PROA_ON_ADMIT(admit)
