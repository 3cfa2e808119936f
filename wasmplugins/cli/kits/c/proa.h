/* proa.h is the kit for writing plugins of Proa in C: one header, no library.
 *
 * A plugin is one file, plugin.c:
 *
 *	#include "proa.h"
 *
 *	static proa_answer admit(const proa_request *r) {
 *		if (proa_missing(proa_get(r->object, "metadata", "labels", "team")))
 *			return proa_deny("the label team is missing");
 *		return proa_allow();
 *	}
 *	PROA_ON_ADMIT(admit)
 *
 * Build it with "proa plugin build", or with clang and lld alone:
 *
 *	clang --target=wasm32 -mbulk-memory -O2 -ffreestanding -nostdlib \
 *	  -Wl,--no-entry -Wl,--strip-all -o plugin.wasm plugin.c
 *
 * Objects are read where they lie: a proa_value is a place in the request's
 * JSON, and proa_get walks it without decoding anything else. The server sends
 * valid JSON; on broken JSON values are missing, nothing more.
 *
 * Memory is taken with proa_new and never given back: every call begins in the
 * state that the plugin was in after it was configured, so what a call has
 * taken or stored is gone in the next.
 *
 * Where a parameter is called text, it can be a string literal or a proa_str.
 */
#ifndef PROA_H
#define PROA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROA_UNUSED __attribute__((unused))
#define PROA_EXPORT(name) __attribute__((export_name(name)))
#define PROA_IMPORT(name) __attribute__((import_module("proa"), import_name(name)))

/* ---- Memory and text ---- */

extern unsigned char __heap_base;
static uintptr_t proa__heap;

/* proa_new returns n bytes, aligned to 8. Without memory it traps, which ends
 * the call with the reason OutOfMemory or Trapped. */
PROA_UNUSED static void *proa_new(size_t n) {
	if (!proa__heap) proa__heap = ((uintptr_t)&__heap_base + 7) & ~(uintptr_t)7;
	uintptr_t p = proa__heap, end = p + ((n + 7) & ~(size_t)7);
	if (end < p) __builtin_trap();
	uintptr_t have = __builtin_wasm_memory_size(0) << 16;
	if (end > have) {
		/* More than is needed, so that the next calls need not grow. */
		size_t pages = ((end - have) >> 16) + 4;
		if (__builtin_wasm_memory_grow(0, pages) == (size_t)-1) __builtin_trap();
	}
	proa__heap = end;
	return (void *)p;
}

#ifndef __wasm_bulk_memory__
#error "build with -mbulk-memory, or memcpy would need a library"
#endif
PROA_UNUSED static bool proa__same(const char *a, const char *b, size_t n) {
	for (size_t i = 0; i < n; i++)
		if (a[i] != b[i]) return false;
	return true;
}

/* A proa_str is text with its length; it need not end in a NUL. */
typedef struct {
	const char *p;
	size_t n;
} proa_str;

PROA_UNUSED static proa_str proa__str(proa_str s) { return s; }
PROA_UNUSED static proa_str proa_cstr(const char *s) {
	size_t n = 0;
	while (s && s[n]) n++;
	return (proa_str){s, n};
}
#define proa_text(x) _Generic((x), proa_str: proa__str, char *: proa_cstr, const char *: proa_cstr)(x)

/* A proa_buffer is text that grows. The zero buffer is empty. */
typedef struct {
	char *p;
	size_t n, cap;
} proa_buffer;

PROA_UNUSED static void proa__room(proa_buffer *b, size_t n) {
	if (b->cap - b->n >= n) return;
	size_t cap = b->cap * 2 + n + 64;
	char *p = proa_new(cap);
	__builtin_memcpy(p, b->p, b->n);
	b->p = p;
	b->cap = cap;
}
PROA_UNUSED static void proa__put(proa_buffer *b, proa_str s) {
	proa__room(b, s.n);
	__builtin_memcpy(b->p + b->n, s.p, s.n);
	b->n += s.n;
}
PROA_UNUSED static void proa__put_char(proa_buffer *b, char c) {
	proa__room(b, 1);
	b->p[b->n++] = c;
}
PROA_UNUSED static void proa__put_string(proa_buffer *b, proa_str s) {
	static const char hex[] = "0123456789abcdef";
	proa__room(b, s.n + 2);
	proa__put_char(b, '"');
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		if (c == '"' || c == '\\') {
			proa__put_char(b, '\\');
			proa__put_char(b, (char)c);
		} else if (c < ' ') {
			proa__put(b, proa_cstr("\\u00"));
			proa__put_char(b, hex[c >> 4]);
			proa__put_char(b, hex[c & 15]);
		} else {
			proa__put_char(b, (char)c);
		}
	}
	proa__put_char(b, '"');
}
/* proa_put appends text as it is, proa_put_string as a JSON string, and
 * proa_put_int a number. */
#define proa_put(b, x) proa__put((b), proa_text(x))
#define proa_put_string(b, x) proa__put_string((b), proa_text(x))
PROA_UNUSED static void proa_put_int(proa_buffer *b, int64_t v) {
	char digits[20];
	size_t n = sizeof digits;
	uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
	do digits[--n] = (char)('0' + u % 10);
	while (u /= 10);
	if (v < 0) proa__put_char(b, '-');
	proa__put(b, (proa_str){digits + n, sizeof digits - n});
}
PROA_UNUSED static proa_str proa_str_of(const proa_buffer *b) { return (proa_str){b->p, b->n}; }

PROA_UNUSED static bool proa__equal(proa_str a, proa_str b) { return a.n == b.n && proa__same(a.p, b.p, a.n); }
PROA_UNUSED static bool proa__has_prefix(proa_str s, proa_str prefix) {
	return s.n >= prefix.n && proa__same(s.p, prefix.p, prefix.n);
}
#define proa_equal(a, b) proa__equal(proa_text(a), proa_text(b))
#define proa_has_prefix(s, prefix) proa__has_prefix(proa_text(s), proa_text(prefix))

/* ---- Reading JSON ---- */

/* A proa_value is a JSON value that stays encoded. The zero value is a missing
 * one: every function answers it with nothing, so lookups chain without checks. */
typedef struct {
	const char *at, *end; /* end is that of the whole text */
} proa_value;

PROA_UNUSED static const char *proa__space(const char *p, const char *end) {
	while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r' || *p == ',' || *p == ':')) p++;
	return p;
}
/* proa__quoted returns what is behind a string, p being behind its quote. */
PROA_UNUSED static const char *proa__quoted(const char *p, const char *end) {
	while (p < end && *p != '"') p += *p == '\\' ? 2 : 1;
	return p < end ? p + 1 : end;
}
PROA_UNUSED static const char *proa__skip(const char *p, const char *end) {
	int depth = 0;
	while (p < end) {
		char c = *p++;
		if (c == '"') {
			p = proa__quoted(p, end);
		} else if (c == '{' || c == '[') {
			depth++;
			continue;
		} else if (c == '}' || c == ']') {
			depth--;
		} else if (depth == 0) {
			while (p < end && *p != ',' && *p != '}' && *p != ']' && *p != ' ' && *p != '\n' && *p != '\r' && *p != '\t') p++;
		}
		if (depth <= 0) return p;
	}
	return end;
}

/* proa_parse returns the first value in the text. */
PROA_UNUSED static proa_value proa__parse(proa_str s) {
	const char *p = proa__space(s.p, s.p + s.n);
	return p < s.p + s.n ? (proa_value){p, s.p + s.n} : (proa_value){0};
}
#define proa_parse(x) proa__parse(proa_text(x))

PROA_UNUSED static char proa__first(proa_value v) { return v.at ? *v.at : 0; }

/* A null is not missing, but it is null; a missing value is both. */
PROA_UNUSED static bool proa_missing(proa_value v) { return !v.at; }
PROA_UNUSED static bool proa_is_null(proa_value v) { return !v.at || *v.at == 'n'; }
PROA_UNUSED static bool proa_is_object(proa_value v) { return proa__first(v) == '{'; }
PROA_UNUSED static bool proa_is_array(proa_value v) { return proa__first(v) == '['; }
PROA_UNUSED static bool proa_is_string(proa_value v) { return proa__first(v) == '"'; }
PROA_UNUSED static bool proa_bool(proa_value v) { return proa__first(v) == 't'; }

/* proa_raw returns the JSON of a value. */
PROA_UNUSED static proa_str proa_raw(proa_value v) {
	return v.at ? (proa_str){v.at, (size_t)(proa__skip(v.at, v.end) - v.at)} : (proa_str){0};
}

PROA_UNUSED static uint32_t proa__hex4(const char *p, const char *end) {
	uint32_t u = 0;
	if (end - p < 4) return 0xfffd;
	for (int i = 0; i < 4; i++) {
		char c = p[i];
		if (c >= '0' && c <= '9') u = u << 4 | (uint32_t)(c - '0');
		else if ((c | 32) >= 'a' && (c | 32) <= 'f') u = u << 4 | (uint32_t)((c | 32) - 'a' + 10);
		else return 0xfffd;
	}
	return u;
}
PROA_UNUSED static void proa__put_rune(proa_buffer *b, uint32_t u) {
	if (u < 0x80) {
		proa__put_char(b, (char)u);
		return;
	}
	if (u < 0x800) {
		proa__put_char(b, (char)(0xc0 | u >> 6));
	} else {
		if (u < 0x10000) {
			proa__put_char(b, (char)(0xe0 | u >> 12));
		} else {
			proa__put_char(b, (char)(0xf0 | u >> 18));
			proa__put_char(b, (char)(0x80 | (u >> 12 & 0x3f)));
		}
		proa__put_char(b, (char)(0x80 | (u >> 6 & 0x3f)));
	}
	proa__put_char(b, (char)(0x80 | (u & 0x3f)));
}
/* proa__unquote decodes a string; without escapes it is where it lies. */
PROA_UNUSED static proa_str proa__unquote(const char *p, const char *end) {
	const char *s = p;
	while (s < end && *s != '\\') s++;
	if (s == end) return (proa_str){p, (size_t)(end - p)};
	proa_buffer b = {0};
	proa__room(&b, (size_t)(end - p));
	while (p < end) {
		char c = *p++;
		if (c != '\\' || p == end) {
			proa__put_char(&b, c);
			continue;
		}
		switch (c = *p++) {
		case 'b': proa__put_char(&b, '\b'); break;
		case 'f': proa__put_char(&b, '\f'); break;
		case 'n': proa__put_char(&b, '\n'); break;
		case 'r': proa__put_char(&b, '\r'); break;
		case 't': proa__put_char(&b, '\t'); break;
		case 'u': {
			uint32_t u = proa__hex4(p, end);
			p = end - p < 4 ? end : p + 4;
			if (u >= 0xd800 && u < 0xe000) {
				uint32_t low = u < 0xdc00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u' ? proa__hex4(p + 2, end) : 0;
				if (low >= 0xdc00 && low < 0xe000) {
					p += 6;
					u = 0x10000 + ((u - 0xd800) << 10) + (low - 0xdc00);
				} else {
					u = 0xfffd;
				}
			}
			proa__put_rune(&b, u);
			break;
		}
		default: proa__put_char(&b, c);
		}
	}
	return proa_str_of(&b);
}
/* proa_string returns the content of a string, and nothing for other values. */
PROA_UNUSED static proa_str proa_string(proa_value v) {
	if (!proa_is_string(v)) return (proa_str){0};
	return proa__unquote(v.at + 1, proa__quoted(v.at + 1, v.end) - 1);
}
/* proa_is reports whether the value is this string. */
#define proa_is(v, text) proa__is((v), proa_text(text))
PROA_UNUSED static bool proa__is(proa_value v, proa_str s) { return proa_is_string(v) && proa__equal(proa_string(v), s); }

/* proa_int returns false if the value is no integer of 64 bits. */
PROA_UNUSED static bool proa_int(proa_value v, int64_t *out) {
	proa_str s = proa_raw(v);
	bool minus = s.n && *s.p == '-';
	uint64_t u = 0;
	if (s.n == minus) return false;
	for (size_t i = minus; i < s.n; i++) {
		if (s.p[i] < '0' || s.p[i] > '9' || u > (UINT64_MAX - 9) / 10) return false;
		u = u * 10 + (uint64_t)(s.p[i] - '0');
	}
	if (u > (uint64_t)INT64_MAX + minus) return false;
	*out = (int64_t)(minus ? 0 - u : u);
	return true;
}
/* proa_float returns false if the value is no number. The last digit may be
 * rounded otherwise than elsewhere. */
PROA_UNUSED static bool proa_float(proa_value v, double *out) {
	proa_str s = proa_raw(v);
	size_t i = s.n && *s.p == '-';
	double d = 0, sign = i ? -1 : 1;
	int exponent = 0, e = 0, esign = 1;
	if (i == s.n || s.p[i] < '0' || s.p[i] > '9') return false;
	for (; i < s.n && s.p[i] >= '0' && s.p[i] <= '9'; i++) d = d * 10 + (s.p[i] - '0');
	if (i < s.n && s.p[i] == '.')
		for (i++; i < s.n && s.p[i] >= '0' && s.p[i] <= '9'; i++, exponent--) d = d * 10 + (s.p[i] - '0');
	if (i < s.n && (s.p[i] | 32) == 'e') {
		if (++i < s.n && (s.p[i] == '-' || s.p[i] == '+')) esign = s.p[i++] == '-' ? -1 : 1;
		for (; i < s.n && s.p[i] >= '0' && s.p[i] <= '9' && e < 1000; i++) e = e * 10 + (s.p[i] - '0');
	}
	if (i != s.n) return false;
	double scale = 1;
	exponent += e * esign;
	for (int k = exponent < 0 ? -exponent : exponent; k > 0 && scale < 1e300; k--) scale *= 10;
	*out = sign * (exponent < 0 ? d / scale : d * scale);
	return true;
}

/* A proa_iter goes over the members of an object or the items of an array:
 *
 *	for (proa_iter i = proa_items(v); proa_next(&i);) … i.index, i.key, i.value
 */
typedef struct {
	const char *next, *end;
	bool object;
	proa_str raw_key; /* still escaped */
	int index;
	proa_str key;
	proa_value value;
} proa_iter;

PROA_UNUSED static proa_iter proa_items(proa_value v) {
	proa_iter i = {.index = -1};
	if (proa_is_object(v) || proa_is_array(v)) {
		i.object = proa_is_object(v);
		i.next = v.at + 1;
		i.end = v.end;
	}
	return i;
}
PROA_UNUSED static bool proa__next(proa_iter *i) {
	if (i->value.at) i->next = proa__skip(i->value.at, i->end);
	const char *p = proa__space(i->next, i->end);
	if (p >= i->end || *p == '}' || *p == ']') return false;
	if (i->object) {
		if (*p != '"') return false;
		const char *behind = proa__quoted(p + 1, i->end);
		i->raw_key = (proa_str){p + 1, (size_t)(behind - p) - 2};
		p = proa__space(behind, i->end);
		if (p >= i->end || *p == '}') return false;
	}
	i->value = (proa_value){p, i->end};
	i->index++;
	return true;
}
PROA_UNUSED static bool proa_next(proa_iter *i) {
	if (!proa__next(i)) return false;
	if (i->object) i->key = proa__unquote(i->raw_key.p, i->raw_key.p + i->raw_key.n);
	return true;
}
/* proa_len returns the number of members or items. */
PROA_UNUSED static int proa_len(proa_value v) {
	int n = 0;
	for (proa_iter i = proa_items(v); proa__next(&i);) n++;
	return n;
}

PROA_UNUSED static proa_value proa__field(proa_value v, proa_str key) {
	if (!proa_is_object(v)) return (proa_value){0};
	for (proa_iter i = proa_items(v); proa__next(&i);) {
		if (i.raw_key.n == key.n ? proa__same(i.raw_key.p, key.p, key.n)
		                         : i.raw_key.n > key.n && proa__equal(proa__unquote(i.raw_key.p, i.raw_key.p + i.raw_key.n), key))
			return i.value;
	}
	return (proa_value){0};
}
PROA_UNUSED static proa_value proa__get(proa_value v, const char *const *path) {
	for (; *path; path++) v = proa__field(v, proa_cstr(*path));
	return v;
}
/* proa_get returns the value at a path of keys, which are string literals:
 * proa_get(v, "metadata", "labels"). proa_field takes one key of any text. */
#define proa_get(v, ...) proa__get((v), (const char *const[]){__VA_ARGS__, 0})
#define proa_field(v, key) proa__field((v), proa_text(key))

/* ---- Changing objects ---- */

/* A proa_json is encoded JSON: what a patch puts into an object. */
typedef struct {
	proa_str text;
} proa_json;

PROA_UNUSED static proa_json proa__json(proa_json j) { return j; }
PROA_UNUSED static proa_json proa__json_value(proa_value v) { return (proa_json){v.at ? proa_raw(v) : proa_cstr("null")}; }
PROA_UNUSED static proa_json proa__json_str(proa_str s) {
	proa_buffer b = {0};
	proa__put_string(&b, s);
	return (proa_json){proa_str_of(&b)};
}
PROA_UNUSED static proa_json proa__json_cstr(const char *s) { return proa__json_str(proa_cstr(s)); }
PROA_UNUSED static proa_json proa__json_int(int64_t v) {
	proa_buffer b = {0};
	proa_put_int(&b, v);
	return (proa_json){proa_str_of(&b)};
}
/* proa_encoded takes text that is JSON already. */
#define proa_encoded(x) ((proa_json){proa_text(x)})
#define proa_json_of(x)                                                                                              \
	_Generic((x), proa_json: proa__json, proa_value: proa__json_value, proa_str: proa__json_str, char *: proa__json_cstr, \
	         const char *: proa__json_cstr, int: proa__json_int, int64_t: proa__json_int)(x)

/* A proa_patch is a list of changes as RFC 6902 has them. The zero patch is
 * empty. Values can be text, int, int64_t, proa_value and proa_json. */
typedef struct {
	proa_buffer b;
} proa_patch;

PROA_UNUSED static void proa__op(proa_patch *p, const char *op, proa_str path, const proa_json *value) {
	proa_put(&p->b, p->b.n ? ",{\"op\":\"" : "[{\"op\":\"");
	proa_put(&p->b, op);
	proa_put(&p->b, "\",\"path\":");
	proa_put_string(&p->b, path);
	if (value) {
		proa_put(&p->b, ",\"value\":");
		proa_put(&p->b, value->text);
	}
	proa_put(&p->b, "}");
}
/* proa_add sets the member at path, or inserts before an array's element; the
 * element "-" is behind the last. The others need something at path. */
#define proa_add(p, path, value) proa__op((p), "add", proa_text(path), &(const proa_json){proa_json_of(value).text})
#define proa_replace(p, path, value) proa__op((p), "replace", proa_text(path), &(const proa_json){proa_json_of(value).text})
#define proa_test(p, path, value) proa__op((p), "test", proa_text(path), &(const proa_json){proa_json_of(value).text})
#define proa_remove(p, path) proa__op((p), "remove", proa_text(path), 0)

PROA_UNUSED static void proa__put_token(proa_buffer *b, proa_str key) {
	proa__put_char(b, '/');
	for (size_t i = 0; i < key.n; i++) {
		if (key.p[i] == '~') proa_put(b, "~0");
		else if (key.p[i] == '/') proa_put(b, "~1");
		else proa__put_char(b, key.p[i]);
	}
}
/* proa_put_token appends a slash and a key to a JSON pointer. */
#define proa_put_token(b, key) proa__put_token((b), proa_text(key))
PROA_UNUSED static proa_str proa__pointer(const char *const *path) {
	proa_buffer b = {0};
	for (; *path; path++) proa__put_token(&b, proa_cstr(*path));
	return proa_str_of(&b);
}
/* proa_pointer makes a JSON pointer of string literals. */
#define proa_pointer(...) proa__pointer((const char *const[]){__VA_ARGS__, 0})

/* ---- The server's functions ---- */

PROA_IMPORT("log") void proa__host_log(int level, const char *p, size_t n);
PROA_IMPORT("call") int proa__host_call(const char *op, size_t op_n, const char *request, size_t request_n);
PROA_IMPORT("read") int proa__host_read(char *p, size_t n);

PROA_UNUSED static void proa__log(int level, proa_str s) { proa__host_log(level, s.p, s.n); }
/* These write a line to the server's log. A call may write 8 KiB. */
#define proa_log_debug(text) proa__log(0, proa_text(text))
#define proa_log_info(text) proa__log(1, proa_text(text))
#define proa_log_warn(text) proa__log(2, proa_text(text))
#define proa_log_error(text) proa__log(3, proa_text(text))

/* A proa_reply is the server's answer to a call: JSON, or an error's text. What
 * is not granted does not return: the call ends with CapabilityDenied. */
typedef struct {
	bool ok;
	proa_value value;
	proa_str error;
} proa_reply;

PROA_UNUSED static proa_reply proa__call(proa_str op, proa_str request) {
	int r = proa__host_call(op.p, op.n, request.p, request.n);
	size_t n = (size_t)(r < 0 ? -1 - r : r);
	char *p = proa_new(n);
	proa_str s = {p, (size_t)proa__host_read(p, n)};
	return r < 0 ? (proa_reply){.error = s} : (proa_reply){.ok = true, .value = proa__parse(s)};
}
/* proa_call calls an operation of the server with a request in JSON. */
#define proa_call(op, request) proa__call(proa_text(op), proa_text(request))

/* proa__ask makes a request of names and texts. */
PROA_UNUSED static proa_reply proa__ask(const char *op, const char *const *names, const proa_str *texts) {
	proa_buffer b = {0};
	for (int i = 0; names[i]; i++) {
		proa_put(&b, i ? "," : "{");
		proa_put_string(&b, names[i]);
		proa_put(&b, ":");
		proa_put_string(&b, texts[i]);
	}
	proa_put(&b, "}");
	return proa__call(proa_cstr(op), proa_str_of(&b));
}
#define PROA__TEXTS(...) ((const proa_str[]){__VA_ARGS__})
#define PROA__NAMES(...) ((const char *const[]){__VA_ARGS__, 0})

/* proa_kube_get reads an object, proa_kube_list {"items":[…]}. */
#define proa_kube_get(group, version, resource, namespace, name)                              \
	proa__ask("kube.get", PROA__NAMES("group", "version", "resource", "namespace", "name"), \
	          PROA__TEXTS(proa_text(group), proa_text(version), proa_text(resource), proa_text(namespace), proa_text(name)))
#define proa_kube_list(group, version, resource, namespace, label_selector)                              \
	proa__ask("kube.list", PROA__NAMES("group", "version", "resource", "namespace", "labelSelector"), \
	          PROA__TEXTS(proa_text(group), proa_text(version), proa_text(resource), proa_text(namespace), proa_text(label_selector)))
/* proa_can_i answers {"allowed":…,"reason":…} for the plugin's ServiceAccount. */
#define proa_can_i(verb, group, resource, namespace, name)                                          \
	proa__ask("authz.can_i", PROA__NAMES("verb", "group", "resource", "namespace", "name"), \
	          PROA__TEXTS(proa_text(verb), proa_text(group), proa_text(resource), proa_text(namespace), proa_text(name)))
/* proa_config reads {"data":{…}} of a ConfigMap. */
#define proa_config(namespace, name) \
	proa__ask("config.read", PROA__NAMES("namespace", "name"), PROA__TEXTS(proa_text(namespace), proa_text(name)))
/* proa_http answers {"status":…,"headers":{…},"body":base64}. */
#define proa_http(method, url) proa__ask("http", PROA__NAMES("method", "url"), PROA__TEXTS(proa_text(method), proa_text(url)))
/* proa_now answers the time in nanoseconds since 1970, 0 if it is not known. */
PROA_UNUSED static int64_t proa_now(void) {
	int64_t t = 0;
	proa_int(proa_get(proa_call("clock.wall", "{}").value, "unixNanos"), &t);
	return t;
}
/* proa_random answers {"base64":…} with up to n bytes. */
PROA_UNUSED static proa_reply proa_random(int n) {
	proa_buffer b = {0};
	proa_put(&b, "{\"bytes\":");
	proa_put_int(&b, n);
	proa_put(&b, "}");
	return proa__call(proa_cstr("random"), proa_str_of(&b));
}

/* ---- Being called ---- */

PROA_UNUSED PROA_EXPORT("proa_abi") int proa__abi(void) { return 0x00010000; }
PROA_UNUSED PROA_EXPORT("proa_alloc") void *proa__alloc(int n) { return n < 0 ? 0 : proa_new((size_t)n); }
PROA_UNUSED static int64_t proa__result(const proa_buffer *b) { return (int64_t)(uintptr_t)b->p << 32 | (int64_t)b->n; }

/* PROA_MANIFEST says what the plugin is, in JSON, unless "proa plugin build"
 * puts manifest.json into the module. */
#define PROA_MANIFEST(json) __asm__(".section .custom_section.proa.manifest,\"\",@\n.ascii " #json "\n.text\n");

/* PROA_ON_CONFIGURE names the function that gets the settings once, before the
 * first request; a variable that it sets stays set. It returns the text of an
 * error, with which the plugin is not ready, or a null pointer. */
#define PROA_ON_CONFIGURE(f)                                                    \
	PROA_EXPORT("proa_configure") int64_t proa__configure(const char *p, int n) { \
		const char *error = f(proa__parse((proa_str){p, (size_t)n}));             \
		if (!error) return 0;                                                     \
		proa_buffer b = {0};                                                      \
		proa_put(&b, "{\"valid\":false,\"message\":");                            \
		proa_put_string(&b, error);                                               \
		proa_put(&b, "}");                                                        \
		return proa__result(&b);                                                  \
	}

/* PROA_ON_CALL names the function for any extension point, such as
 * proa_authorize: it gets JSON and appends the answer's JSON. */
#define PROA_ON_CALL(export, f)                                  \
	PROA_EXPORT(#export) int64_t proa__on_##export(const char *p, int n) { \
		proa_buffer b = {0};                                               \
		f(proa__parse((proa_str){p, (size_t)n}), &b);                      \
		return proa__result(&b);                                           \
	}

/* A proa_request is a write on its way to storage. */
typedef struct {
	bool mutate;         /* the phase, in which the answer may change the object */
	proa_value settings; /* the binding's spec.settings */
	/* The new object, missing on DELETE. The stored one is proa_old_object. */
	proa_value object;
	proa_value all; /* an AdmissionRequest of admission.k8s.io/v1 */
} proa_request;

PROA_UNUSED static proa_value proa__there(proa_value v) { return proa_is_null(v) ? (proa_value){0} : v; }
PROA_UNUSED static proa_request proa__request(proa_value v) {
	proa_request r = {.settings = proa_get(v, "settings"), .all = proa_get(v, "request")};
	r.mutate = proa_is(proa_get(v, "phase"), "mutate");
	r.object = proa__there(proa_get(r.all, "object"));
	return r;
}
PROA_UNUSED static proa_value proa_old_object(const proa_request *r) { return proa__there(proa_get(r->all, "oldObject")); }
PROA_UNUSED static proa_str proa_operation(const proa_request *r) { return proa_string(proa_get(r->all, "operation")); }
PROA_UNUSED static proa_str proa_kind(const proa_request *r) { return proa_string(proa_get(r->all, "kind", "kind")); }
PROA_UNUSED static proa_str proa_resource(const proa_request *r) { return proa_string(proa_get(r->all, "resource", "resource")); }
PROA_UNUSED static proa_str proa_sub_resource(const proa_request *r) { return proa_string(proa_get(r->all, "subResource")); }
PROA_UNUSED static proa_str proa_namespace(const proa_request *r) { return proa_string(proa_get(r->all, "namespace")); }
PROA_UNUSED static proa_str proa_name(const proa_request *r) { return proa_string(proa_get(r->all, "name")); }
PROA_UNUSED static proa_str proa_username(const proa_request *r) { return proa_string(proa_get(r->all, "userInfo", "username")); }
PROA_UNUSED static bool proa_dry_run(const proa_request *r) { return proa_bool(proa_get(r->all, "dryRun")); }

/* A proa_answer is what becomes of a request. */
typedef struct {
	bool allowed;
	proa_str message; /* shown to the user when refused */
	int code;         /* HTTP status when refused; 0 is 403 */
	proa_str reason;  /* of the status */
	proa_buffer warnings, annotations;
	/* The patch or the whole object, as JSON, change the object. */
	proa_str patch, object;
} proa_answer;

/* proa_allow lets the request pass, proa_deny refuses it with status 403, and
 * proa_change lets it pass with changes. */
PROA_UNUSED static proa_answer proa_allow(void) { return (proa_answer){.allowed = true}; }
#define proa_deny(text) ((proa_answer){.message = proa_text(text)})
PROA_UNUSED static proa_answer proa_change(const proa_patch *p) {
	return (proa_answer){.allowed = true, .patch = proa_str_of(&p->b)};
}
/* proa_warn adds a warning for the user, proa_annotate an audit annotation. */
#define proa_warn(a, text) (proa_put(&(a)->warnings, (a)->warnings.n ? "," : ""), proa_put_string(&(a)->warnings, text))
#define proa_annotate(a, key, value)                                                         \
	(proa_put(&(a)->annotations, (a)->annotations.n ? "," : ""), proa_put_string(&(a)->annotations, key), \
	 proa_put(&(a)->annotations, ":"), proa_put_string(&(a)->annotations, value))

PROA_UNUSED static int64_t proa__answer(const proa_answer *a) {
	proa_buffer b = {0};
	if (a->allowed && !a->warnings.n && !a->annotations.n && !a->patch.n && !a->object.n) return 0;
	proa_put(&b, a->allowed ? "{\"allowed\":true" : "{\"allowed\":false,\"status\":{\"message\":");
	if (!a->allowed) {
		proa_put_string(&b, a->message);
		if (a->code) {
			proa_put(&b, ",\"code\":");
			proa_put_int(&b, a->code);
		}
		if (a->reason.n) {
			proa_put(&b, ",\"reason\":");
			proa_put_string(&b, a->reason);
		}
		proa_put(&b, "}");
	}
	if (a->warnings.n) {
		proa_put(&b, ",\"warnings\":[");
		proa_put(&b, proa_str_of(&a->warnings));
		proa_put(&b, "]");
	}
	if (a->annotations.n) {
		proa_put(&b, ",\"auditAnnotations\":{");
		proa_put(&b, proa_str_of(&a->annotations));
		proa_put(&b, "}");
	}
	if (a->patch.n) {
		proa_put(&b, ",\"patch\":");
		proa_put(&b, a->patch);
		proa_put(&b, "]");
	}
	if (a->object.n) {
		proa_put(&b, ",\"object\":");
		proa_put(&b, a->object);
	}
	proa_put(&b, "}");
	return proa__result(&b);
}

/* PROA_ON_ADMIT names the function that judges requests. */
#define PROA_ON_ADMIT(f)                                            \
	PROA_EXPORT("proa_admit") int64_t proa__admit(const char *p, int n) { \
		proa_request r = proa__request(proa__parse((proa_str){p, (size_t)n})); \
		proa_answer a = f(&r);                                                \
		return proa__answer(&a);                                              \
	}

/* ---- Scheduling ----
 *
 * A plugin for the scheduler looks at a pod once, and then at all nodes:
 *
 *	static proa_key disk = {"disk"};
 *	static int no_disk;
 *
 *	static void prepare(proa_value pod, proa_plan *plan) { no_disk = proa_reason(plan, "node(s) had no disk"); }
 *	PROA_ON_PREPARE(prepare)
 *
 *	static int filter(const proa_node *n) { return proa_label(n, &disk).n ? 0 : no_disk; }
 *	PROA_ON_FILTER(filter)
 *
 *	static int score(const proa_node *n) { return (int)(100 - 100 * n->requested[PROA_PODS] / n->allocatable[PROA_PODS]); }
 *	PROA_ON_SCORE(score)
 *
 * What prepare stores is there for the nodes, and gone with the next pod. The
 * points about a pod and its node, proa_reserve and others, are PROA_ON_CALLs.
 */

/* The resources of every node, in milli-CPU, bytes and pods. */
enum { PROA_CPU, PROA_MEMORY, PROA_STORAGE, PROA_PODS };

/* The flags of a node. */
enum {
	PROA_PRESENT = 1,
	PROA_READY = 2,
	PROA_UNSCHEDULABLE = 4,
	PROA_HARD_TAINT = 8,
	PROA_SOFT_TAINT = 16,
	PROA_HOST_PORTS = 32
};

/* A proa_list is a place in the table, and how many bytes or entries are there.
 * Equal texts have equal places. */
typedef struct {
	uint32_t at, n;
} proa_list;

/* A proa_node is a record of the table of nodes. */
typedef struct {
	proa_list name;
	uint32_t zone, flags; /* the zone's number, 0 for none */
	int64_t allocatable[4], requested[4];
	proa_list taints, labels;
	int64_t non_zero[2]; /* requested, with the defaults for containers that ask for nothing */
	proa_list scalars, zone_name;
} proa_node;

static const char *proa__nodes_at;
static size_t proa__stride;

PROA_UNUSED static proa_str proa__text_at(proa_list l) { return (proa_str){proa__nodes_at + l.at, l.n}; }
PROA_UNUSED static proa_str proa_node_name(const proa_node *n) { return proa__text_at(n->name); }
PROA_UNUSED static proa_str proa_zone_name(const proa_node *n) { return proa__text_at(n->zone_name); }

/* A proa_key is the key of a label or a resource: {"topology.kubernetes.io/zone"}.
 * It remembers its place in the table, so that looking for it is comparing
 * numbers. */
typedef struct {
	const char *text;
	uint32_t at;
} proa_key;

PROA_UNUSED static bool proa__key_is(proa_key *k, proa_list l) {
	if (k->at) return k->at == l.at;
	if (!proa__equal(proa__text_at(l), proa_cstr(k->text))) return false;
	k->at = l.at;
	return true;
}

typedef struct {
	proa_list key, value;
} proa__label;

/* proa_label returns the value of a label; .p is a null pointer if the node does
 * not have it. */
PROA_UNUSED static proa_str proa_label(const proa_node *n, proa_key *key) {
	const proa__label *l = (const proa__label *)(proa__nodes_at + n->labels.at);
	for (uint32_t i = 0; i < n->labels.n; i++)
		if (proa__key_is(key, l[i].key)) return proa__text_at(l[i].value);
	return (proa_str){0};
}

enum { PROA_NO_SCHEDULE = 1, PROA_PREFER_NO_SCHEDULE, PROA_NO_EXECUTE };

/* A proa_taint is one of a node's n->taints.n. */
typedef struct {
	proa_str key, value;
	int effect;
} proa_taint;

PROA_UNUSED static proa_taint proa_taint_of(const proa_node *n, uint32_t i) {
	const struct {
		proa_list key, value;
		uint32_t effect, unused;
	} *t = (const void *)(proa__nodes_at + n->taints.at);
	return (proa_taint){proa__text_at(t[i].key), proa__text_at(t[i].value), (int)t[i].effect};
}

/* proa_scalar finds how much of an extended resource a node has. */
PROA_UNUSED static bool proa_scalar(const proa_node *n, proa_key *name, int64_t *allocatable, int64_t *requested) {
	const struct {
		proa_list name;
		int64_t allocatable, requested;
	} *r = (const void *)(proa__nodes_at + n->scalars.at);
	for (uint32_t i = 0; i < n->scalars.n; i++) {
		if (!proa__key_is(name, r[i].name)) continue;
		*allocatable = r[i].allocatable;
		*requested = r[i].requested;
		return true;
	}
	return false;
}

/* A proa_plan is what a plugin makes of a pod before it sees the nodes. */
typedef struct {
	bool skip_filter, skip_score;
	/* "scale" makes the highest score 100, "reverse" makes it 0; without it
	 * scores are 0 to 100. */
	const char *normalize;
	proa_buffer reasons, rejection, nodes;
	int count;
	bool only;
} proa_plan;

PROA_UNUSED static int proa__reason(proa_plan *p, proa_str text, bool unresolvable) {
	proa_put(&p->reasons, p->count ? ",{\"reason\":" : "{\"reason\":");
	proa_put_string(&p->reasons, text);
	proa_put(&p->reasons, unresolvable ? ",\"unresolvable\":true}" : "}");
	return ++p->count;
}
/* proa_reason returns the number with which filter vetoes a node for a reason.
 * Unresolvable means that removing other pods would not help. */
#define proa_reason(plan, text) proa__reason((plan), proa_text(text), false)
#define proa_reason_unresolvable(plan, text) proa__reason((plan), proa_text(text), true)
/* proa_reject refuses the pod on every node. */
#define proa_reject(plan, text) proa_put_string(&(plan)->rejection, text)
PROA_UNUSED static void proa__only(proa_plan *p, proa_str name) {
	if (p->only) proa_put(&p->nodes, ",");
	proa_put_string(&p->nodes, name);
	p->only = true;
}
/* proa_only makes a node one of the only ones that come into question. */
#define proa_only(plan, name) proa__only((plan), proa_text(name))

PROA_UNUSED static int64_t proa__plan(const proa_plan *p) {
	proa_buffer b = {0};
	proa_put(&b, "{\"reasons\":[");
	proa_put(&b, proa_str_of(&p->reasons));
	proa_put(&b, "]");
	if (p->rejection.n) {
		proa_put(&b, ",\"reject\":{\"reasons\":[");
		proa_put(&b, proa_str_of(&p->rejection));
		proa_put(&b, "]}");
	}
	if (p->skip_filter || p->skip_score)
		proa_put(&b, !p->skip_score ? ",\"skip\":[\"filter\"]" : p->skip_filter ? ",\"skip\":[\"filter\",\"score\"]" : ",\"skip\":[\"score\"]");
	if (p->only) {
		proa_put(&b, ",\"nodes\":[");
		proa_put(&b, proa_str_of(&p->nodes));
		proa_put(&b, "]");
	}
	if (p->normalize) {
		proa_put(&b, ",\"normalize\":");
		proa_put_string(&b, p->normalize);
	}
	proa_put(&b, "}");
	return proa__result(&b);
}

/* PROA_ON_PREPARE names the function that looks at the pod; every plugin for the
 * scheduler has it. PROA_ON_FILTER names the one that answers 0 to let a node
 * pass, or the number of a reason, and PROA_ON_SCORE the one that answers a
 * node's score. */
#define PROA_ON_PREPARE(f)                                                                \
	PROA_EXPORT("proa_table") void *proa__table(int n) { return proa_new((size_t)n); }    \
	PROA_EXPORT("proa_nodes") int proa__nodes(const char *p, int stride, int count, int gen) { \
		(void)count, (void)gen;                                                           \
		proa__nodes_at = p;                                                               \
		proa__stride = (size_t)stride;                                                    \
		return 0;                                                                         \
	}                                                                                     \
	PROA_EXPORT("proa_prepare") int64_t proa__prepare(const char *p, int n) {             \
		proa_plan plan = {0};                                                             \
		f(proa_get(proa__parse((proa_str){p, (size_t)n}), "pod"), &plan);                 \
		return proa__plan(&plan);                                                         \
	}
#define PROA_ON_FILTER(f)                                                    \
	PROA_EXPORT("proa_filter") int proa__filter(uint8_t *out, int count) {   \
		const char *p = proa__nodes_at;                                      \
		for (int i = 0; i < count; i++, p += proa__stride)                   \
			if (!out[i]) out[i] = (uint8_t)f((const proa_node *)p);          \
		return 0;                                                            \
	}
#define PROA_ON_SCORE(f)                                                     \
	PROA_EXPORT("proa_score") int proa__score(int32_t *out, int count) {     \
		const char *p = proa__nodes_at;                                      \
		for (int i = 0; i < count; i++, p += proa__stride)                   \
			if (!out[i]) out[i] = (int32_t)f((const proa_node *)p);          \
		return 0;                                                            \
	}

#endif
