/* A reconciler for tests: each object gets a ConfigMap with the setting "value",
 * whose name has the suffix -child. It tells the host what it is called for. */
#include "../../../guest/c/proa.h"

static proa_str value;

static const char *configure(proa_value settings) {
	value = proa_string(proa_get(settings, "value"));
	return 0;
}
PROA_ON_CONFIGURE(configure)

static void reconcile(proa_value in, proa_buffer *out) {
	proa_str name = proa_string(proa_get(in, "object", "metadata", "name"));
	proa_buffer child = {0};
	proa_put(&child, name);
	proa_put(&child, "-child");
	proa_call("called", name);
	proa_put(out, "{\"objects\":[{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":");
	proa_put_string(out, proa_str_of(&child));
	proa_put(out, "},\"data\":{\"value\":");
	proa_put_string(out, value);
	proa_put(out, "}}]}");
}
PROA_ON_CALL(proa_reconcile, reconcile)
