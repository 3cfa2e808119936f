/* A plugin that uses everything of its kit. */
#include "../../../../../wasmplugins/guest/c/proa.h"

#define WORD(x) (proa_put(&b, b.n ? " " : ""), proa_put(&b, x))
#define NUMBER(x) (proa_put(&b, " "), proa_put_int(&b, x))

static proa_answer answer_read(const proa_request *r) {
	proa_value list = proa_get(r->object, "kéy\""), items[6] = {{0}};
	for (proa_iter i = proa_items(list); proa_next(&i);) items[i.index] = i.value;
	proa_buffer b = {0};
	proa_value old = proa_old_object(r);
	int64_t n;
	double f;
	proa_put(&b, proa_operation(r));
	WORD(proa_kind(r));
	WORD(proa_resource(r));
	WORD(proa_sub_resource(r));
	WORD(proa_namespace(r));
	WORD(proa_name(r));
	WORD(proa_username(r));
	WORD(proa_dry_run(r) ? "dry" : "wet");
	WORD(r->mutate ? "mutate" : "validate");
	if (proa_missing(old)) WORD("none");
	else WORD(proa_string(proa_get(old, "text")));
	WORD(proa_string(proa_get(r->object, "text")));
	NUMBER(proa_len(list));
	NUMBER(proa_len(proa_get(r->object, "empty")));
	if (proa_int(items[0], &n)) NUMBER(n);
	else WORD("-");
	WORD(proa_missing(items[2]) ? "missing" : proa_is_null(items[2]) ? "null" : "something");
	WORD(proa_bool(items[3]) ? "true" : "false");
	WORD(proa_string(items[5]));
	WORD(proa_is_null(proa_get(r->object, "none", "at", "all")) ? "absent" : "there");
	proa_answer a = proa_deny(proa_str_of(&b));
	if (proa_float(items[1], &f) && f == -25) {
		a.code = 422;
		a.reason = proa_text("Invalid");
	}
	return a;
}

static proa_answer answer_patch(const proa_request *r) {
	proa_patch p = {0};
	proa_add(&p, proa_pointer("metadata", "labels", "a/b~c"), proa_get(r->settings, "text"));
	proa_test(&p, "/list/0", 1);
	proa_add(&p, "/list/1", 7);
	proa_add(&p, "/list/-", proa_get(r->object, "metadata", "labels"));
	proa_remove(&p, "/gone");
	proa_replace(&p, "/same", proa_encoded("{\"json\":true}"));
	proa_answer a = proa_change(&p);
	proa_warn(&a, "careful \"é\"");
	proa_warn(&a, "second");
	proa_annotate(&a, "k", "v\n");
	return a;
}

static proa_answer answer_host(const proa_request *r) {
	proa_buffer b = {0};
	int64_t status = 0;
	proa_str namespace = proa_namespace(r);
	proa_put(&b, proa_string(proa_get(proa_kube_get("apps", "v1", "deployments", namespace, "web").value, "metadata", "name")));
	NUMBER(proa_len(proa_get(proa_kube_list("", "v1", "pods", "", "a=b").value, "items")));
	WORD(proa_bool(proa_get(proa_can_i("delete", "", "pods", namespace, "").value, "allowed")) ? "yes" : "no");
	NUMBER(proa_now());
	NUMBER((int64_t)proa_string(proa_get(proa_random(2).value, "base64")).n / 2); /* with a padding */
	WORD(proa_string(proa_get(proa_config(namespace, "c").value, "data", "k")));
	proa_int(proa_get(proa_http("GET", "https://a.test").value, "status"), &status);
	NUMBER(status);
	WORD(proa_call("own", "{\"x\":1}").error);
	return proa_deny(proa_str_of(&b));
}

/* echo puts a value together again, piece by piece. */
static void echo(proa_value v, proa_buffer *out) {
	int64_t n;
	if (proa_is_object(v) || proa_is_array(v)) {
		bool object = proa_is_object(v);
		proa_put(out, object ? "{" : "[");
		for (proa_iter i = proa_items(v); proa_next(&i);) {
			if (i.index) proa_put(out, ",");
			if (object) {
				proa_put_string(out, i.key);
				proa_put(out, ":");
			}
			echo(i.value, out);
		}
		proa_put(out, object ? "}" : "]");
	} else if (proa_is_string(v)) {
		proa_put_string(out, proa_string(v));
	} else if (proa_int(v, &n)) {
		proa_put_int(out, n);
	} else {
		proa_put(out, proa_raw(v));
	}
}

static proa_answer admit(const proa_request *r) {
	proa_value what = proa_get(r->object, "do");
	proa_buffer line = {0};
	proa_put(&line, "asked to ");
	proa_put(&line, proa_string(what));
	proa_log_info(proa_str_of(&line));
	if (proa_is(what, "read")) return answer_read(r);
	if (proa_is(what, "patch")) return answer_patch(r);
	if (proa_is(what, "host")) return answer_host(r);
	proa_answer a = proa_allow();
	if (proa_is(what, "echo")) {
		proa_buffer b = {0};
		proa_put(&b, "{\"value\":");
		echo(proa_get(r->object, "value"), &b);
		proa_put(&b, "}");
		a.object = proa_str_of(&b);
	}
	if (proa_is(what, "object")) a.object = proa_text("{\"whole\":true}");
	return a;
}
PROA_ON_ADMIT(admit)
