// A policy for Kubewarden in C, without a library: it refuses an object in
// which there is "privileged":true.
#include <stddef.h>

#define WAPC(name) __attribute__((import_module("wapc"), import_name(name)))
WAPC("__guest_request") void guest_request(char *op, char *payload);
WAPC("__guest_response") void guest_response(const char *p, size_t n);
WAPC("__guest_error") void guest_error(const char *p, size_t n);
WAPC("__console_log") void console_log(const char *p, size_t n);

static char op[64], payload[4 << 20];

static int begins(const char *a, const char *b) {
	while (*b)
		if (*a++ != *b++)
			return 0;
	return 1;
}

#define ANSWER(text) (guest_response(text, sizeof text - 1), 1)
#define FAIL(text) (guest_error(text, sizeof text - 1), 0)

__attribute__((export_name("__guest_call"))) int guest_call(size_t op_len, size_t len) {
	if (op_len >= sizeof op || len >= sizeof payload)
		return FAIL("too large");
	guest_request(op, payload);
	op[op_len] = payload[len] = 0;
	if (begins(op, "protocol_version"))
		return ANSWER("\"v1\"");
	if (begins(op, "validate_settings"))
		return ANSWER("{\"valid\":true}");
	for (size_t n = 0; n < len; n++)
		if (payload[n] == '"' && begins(payload + n, "\"privileged\":true")) {
			console_log("found", 5);
			return ANSWER("{\"accepted\":false,\"message\":\"privileged containers are not wanted\"}");
		}
	return ANSWER("{\"accepted\":true}");
}
