/* A plugin for tests that makes the host call which an object asks for, and
 * refuses the object with what it was answered. */
#include "../../guest/c/proa.h"

static proa_answer admit(const proa_request *r) {
	proa_str operation = proa_string(proa_get(r->object, "data", "operation"));
	proa_reply reply = proa_call(operation, proa_string(proa_get(r->object, "data", "request")));
	return proa_deny(reply.ok ? proa_raw(reply.value) : reply.error);
}
PROA_ON_ADMIT(admit)
