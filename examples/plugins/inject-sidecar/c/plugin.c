/* A plugin of Proa that adds a container to pods which ask for it by the
 * annotation sidecar.example/inject: "true". Settings:
 *
 *	{"container": {"name": "proxy", "image": "registry.example/proxy:1"}}
 */
#include "../../../../wasmplugins/guest/c/proa.h"

/* The container to add, and its name. */
static proa_value container;
static proa_str name;

static const char *configure(proa_value settings) {
	container = proa_get(settings, "container");
	name = proa_string(proa_get(container, "name"));
	if (!name.n || !proa_string(proa_get(container, "image")).n) return "container must have a name and an image";
	return 0;
}
PROA_ON_CONFIGURE(configure)

static proa_answer admit(const proa_request *r) {
	if (!proa_is(proa_get(r->object, "metadata", "annotations", "sidecar.example/inject"), "true")) return proa_allow();
	for (proa_iter i = proa_items(proa_get(r->object, "spec", "containers")); proa_next(&i);)
		if (proa_is(proa_get(i.value, "name"), name)) return proa_allow(); /* is there already */
	proa_patch p = {0};
	proa_add(&p, "/spec/containers/-", container);
	if (proa_is_null(proa_get(r->object, "metadata", "labels"))) {
		proa_add(&p, "/metadata/labels", proa_encoded("{}"));
	}
	proa_add(&p, "/metadata/labels/sidecar", name);
	proa_answer a = proa_change(&p);
	proa_annotate(&a, "injected", name);
	return a;
}
PROA_ON_ADMIT(admit)
