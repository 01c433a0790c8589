#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "sandboxd/request.h"

#define BODY_MAX 512

struct decoded {
	char body[BODY_MAX];
	struct request req;
	struct request_fault fault;
	enum err rc;
};

static void
decode(struct decoded *d, const char *body, bool form)
{
	const struct request_rules rules = { 100, 6000 };

	snprintf(d->body, sizeof(d->body), "%s", body);
	d->rc = request_decode(
	    &d->req, &d->fault, d->body, strlen(body), form, &rules);
}

static void
done(struct decoded *d)
{
	request_done(&d->req);
	request_fault_done(&d->fault);
}

static void
input_is_the_last_argument(void **state)
{
	struct decoded d;

	(void)state;
	decode(&d, "{\"input\": \"print(1)\"}", false);
	assert_int_equal(d.rc, ERR_OK);
	assert_int_equal(d.req.n_args, 3);
	assert_string_equal(d.req.args[1], "-c");
	assert_string_equal(d.req.args[2], "print(1)");
	assert_int_equal(d.req.timeout_ms, 6000);
	done(&d);
	decode(&d,
	    "{\"input\": \"x\", \"args\": [\"\", \"\", \"m.py\", "
	    "\"\"]}",
	    false);
	assert_int_equal(d.req.n_args, 4);
	assert_string_equal(d.req.args[1], "m.py");
	assert_string_equal(d.req.args[2], "");
	assert_string_equal(d.req.args[3], "x");
	done(&d);
}

static void
a_form_is_a_request_too(void **state)
{
	struct decoded d;

	(void)state;
	decode(&d, "a=b&input=print%281%2B1%29+%23", true);
	assert_int_equal(d.rc, ERR_OK);
	assert_string_equal(d.req.args[2], "print(1+1) #");
	done(&d);
}

static void
assert_timeout(const char *number, uint64_t wanted)
{
	char body[100];
	struct decoded d;

	snprintf(
	    body, sizeof(body), "{\"input\": \"\", \"timeout\": %s}", number);
	decode(&d, body, false);
	if (wanted == 0) {
		assert_int_equal(d.rc, ERR_PARSE);
		assert_int_equal(d.fault.status, 400);
	} else {
		assert_int_equal(d.rc, ERR_OK);
		assert_in_range(d.req.timeout_ms, wanted, wanted + 1);
	}
	done(&d);
}

static void
a_timeout_stays_within_the_limit(void **state)
{
	(void)state;
	assert_timeout("1", 1000);
	assert_timeout("0.25", 250);
	assert_timeout("1e300", 6000);
	assert_timeout("6.0001", 6000);
	assert_timeout("null", 6000);
	assert_timeout("0", 0);
	assert_timeout("-3", 0);
	assert_timeout("NaN", 0);
	assert_timeout("Infinity", 0);
	assert_timeout("1e999", 0);
}

/* Where a path leads; NULL: it is refused. */
static void
assert_path(const char *given, const char *wanted)
{
	char body[300];
	struct decoded d;

	snprintf(body, sizeof(body),
	    "{\"input\": \"\", \"files\": [{\"path\": \"%s\"}]}", given);
	decode(&d, body, false);
	assert_int_equal(d.rc, wanted != NULL ? ERR_OK : ERR_PARSE);
	if (wanted != NULL)
		assert_string_equal(d.req.files[0].path, wanted);
	else
		assert_int_equal(d.fault.status, 400);
	done(&d);
}

static void
paths_stay_inside(void **state)
{
	(void)state;
	assert_path("a/b.txt", "a/b.txt");
	assert_path("./a//b/", "a/b");
	assert_path("d/../in", "in");
	assert_path("a/b/../../c", "c");
	assert_path("..a/...", "..a/...");
	assert_path(".", "");
	assert_path("", "");
	assert_path("a/..", "");
	assert_path("..", NULL);
	assert_path("a/../../b", NULL);
	assert_path("/etc/x", NULL);
	assert_path("a\\nb", NULL);
	assert_path("a\\u0000b", NULL);
	assert_path("a\\\\0b", NULL);
	assert_path("a\\ud800", NULL);
}

static void
assert_fault(const char *body, const char *description)
{
	struct decoded d;

	decode(&d, body, false);
	assert_int_equal(d.rc, ERR_PARSE);
	assert_string_equal(buf_str(&d.fault.description), description);
	done(&d);
}

static void
the_fault_nearest_to_the_root_is_named(void **state)
{
	(void)state;
	assert_fault("[1]", "[1] is not of type 'object'");
	assert_fault("{\"files\": 3}",
	    "{'files': 3} is not valid under any of the given schemas");
	assert_fault(
	    "{\"args\": [5], \"input\": 1}", "1 is not of type 'string'");
	assert_fault("{\"args\": [5]}", "5 is not of type 'string'");
	assert_fault("{\"input\": \"\", \"files\": [{}]}",
	    "'path' is a required property");
	assert_fault("", "Could not parse an empty JSON body");
}

static void
what_can_not_be_an_argument_is_not_shortened(void **state)
{
	struct decoded d;

	(void)state;
	decode(&d, "{\"input\": \"print(1)\\u0000print(2)\"}", false);
	assert_int_equal(d.rc, ERR_OK);
	assert_string_equal(d.req.refusal, "ValueError: embedded null byte");
	done(&d);
	decode(&d, "{\"input\": \"\\ud800\"}", false);
	assert_non_null(d.req.refusal);
	done(&d);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(input_is_the_last_argument),
		cmocka_unit_test(a_form_is_a_request_too),
		cmocka_unit_test(a_timeout_stays_within_the_limit),
		cmocka_unit_test(paths_stay_inside),
		cmocka_unit_test(the_fault_nearest_to_the_root_is_named),
		cmocka_unit_test(what_can_not_be_an_argument_is_not_shortened),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
