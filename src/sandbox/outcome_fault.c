#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "sandbox/outcome_fault.h"
#include "sandbox/text.h"

#define TEXT_MAX 65536
#define EXCERPT 300
#define ERROR_DEPTH 8

enum err
outcome_say(char **ret_text, const char *fmt, ...)
{
	CLEANUP_BUF struct buf text = { .max = TEXT_MAX };
	va_list ap;
	enum err rc;
	char *out;

	va_start(ap, fmt);
	rc = buf_vprintf(&text, fmt, ap);
	va_end(ap);
	if (rc != ERR_OK)
		return rc;
	if ((out = buf_steal(&text, NULL)) == NULL)
		return ERR_NOMEM;
	free(*ret_text);
	*ret_text = out;
	return ERR_OK;
}

/* What a transport error means for the caller. */
static const struct transport_fault {
	enum err transport;
	enum outcome_kind kind;
	const char *message;
	const char *details;
} transport_faults[] = {
	{ ERR_NOT_FOUND, OUTCOME_SANDBOX_UNAVAILABLE,
	    "no connection to the sandbox",
	    "Nothing ran; check that the sandbox is running at the address in "
	    "the setting snekbox_url, then try again." },
	{ ERR_TIMEOUT, OUTCOME_SANDBOX_UNAVAILABLE,
	    "the sandbox did not answer in time",
	    "The program may have run; the sandbox is overloaded or hangs. The "
	    "settings sandbox_time_limit and sandbox_reply_timeout say how "
	    "long "
	    "its answer is waited for." },
	{ ERR_CLOSED, OUTCOME_SANDBOX_ERROR,
	    "the sandbox closed the connection without a whole answer",
	    "The program may have run, so it was not sent again; the sandbox's "
	    "own log tells why it gave up." },
	{ ERR_LIMIT, OUTCOME_SANDBOX_ERROR,
	    "the answer of the sandbox was too large",
	    "The program ran; let it leave fewer or smaller files, or raise "
	    "the "
	    "setting sandbox_reply_max." },
};

static enum err
transport_fault(const struct sandbox_reply *reply, struct outcome *outcome)
{
	static const struct transport_fault other = { ERR_SYS,
		OUTCOME_SANDBOX_ERROR, "the request to the sandbox failed",
		"The program may have run, so it was not sent again." };
	const struct transport_fault *fault = &other;
	const char *text = reply->transport_text;
	enum err rc;

	for (size_t i = 0;
	     i < sizeof(transport_faults) / sizeof(transport_faults[0]); i++) {
		if (transport_faults[i].transport == reply->transport)
			fault = &transport_faults[i];
	}
	outcome->kind = fault->kind;
	if ((rc = outcome_say(&outcome->details, "%s", fault->details)) !=
	    ERR_OK)
		return rc;
	if (text == NULL || *text == '\0')
		return outcome_say(
		    &outcome->error_message, "%s", fault->message);
	return outcome_say(
	    &outcome->error_message, "%s: %.300s", fault->message, text);
}

/* The sandbox's own words for a refusal: title and description of its JSON,
 * else the beginning of the body, as one clean line. */
static enum err
own_words(const struct sandbox_reply *reply, struct buf *out)
{
	CLEANUP_JSON cJSON *body = NULL;
	CLEANUP_BUF struct buf text = { .max = TEXT_MAX };
	const char *title = NULL, *more;
	enum err rc;

	if (reply->body_len <= TEXT_MAX / 2 &&
	    json_parse(reply->body, reply->body_len, ERROR_DEPTH, &body,
		NULL) == ERR_OK)
		title = json_get_string(body, "title");
	if (title != NULL) {
		more = json_get_string(body, "description");
		rc = buf_printf(&text, "%.*s%s%.*s", EXCERPT, title,
		    more != NULL ? ": " : "", EXCERPT,
		    more != NULL ? more : "");
	} else if (reply->body_len == 0) {
		rc = buf_puts(&text, "an empty body");
	} else {
		rc = buf_append(&text, reply->body,
		    reply->body_len < EXCERPT ? reply->body_len : EXCERPT);
	}
	if (rc == ERR_OK)
		rc = text_clean(out, buf_str(&text), text.len);
	for (size_t i = 0; i < out->len; i++) {
		if (out->data[i] == '\n' || out->data[i] == '\t')
			out->data[i] = ' ';
	}
	return rc;
}

/* What an HTTP status of a sandbox means. */
static const struct status_fault {
	long status;
	enum outcome_kind kind;
	const char *message;
	const char *details;
} status_faults[] = {
	{ 400, OUTCOME_SANDBOX_ERROR, "the sandbox refused the request",
	    "Nothing ran; the sandbox does not take what was sent, a file name "
	    "perhaps." },
	{ 404, OUTCOME_SANDBOX_ERROR, "there is no sandbox at this address",
	    "Nothing ran; the address in the setting snekbox_url must end with "
	    "the path of the service, usually /eval." },
	{ 405, OUTCOME_SANDBOX_ERROR, "there is no sandbox at this address",
	    "Nothing ran; the address in the setting snekbox_url must end with "
	    "the path of the service, usually /eval." },
	{ 401, OUTCOME_SANDBOX_ERROR, "the sandbox asks for authorization",
	    "Nothing ran; put the credentials into the address in the setting "
	    "snekbox_url." },
	{ 413, OUTCOME_SANDBOX_ERROR,
	    "the request is too large for the sandbox",
	    "Nothing ran; send a shorter program or smaller files, or raise "
	    "the "
	    "sandbox's limit (sandboxd_body_max)." },
	{ 415, OUTCOME_SANDBOX_ERROR, "the sandbox takes no JSON",
	    "Nothing ran; what answers at the address in the setting "
	    "snekbox_url is no Snekbox." },
	{ 503, OUTCOME_BUSY, "the sandbox is busy",
	    "Nothing ran; try again in a few seconds." },
};

static enum err
status_fault(const struct sandbox_reply *reply, struct outcome *outcome)
{
	static const struct status_fault other = { 0, OUTCOME_SANDBOX_ERROR,
		"the sandbox failed",
		"The program may have run, so it was not sent again; the "
		"sandbox's own log tells more." };
	const struct status_fault *fault = &other;
	CLEANUP_BUF struct buf words = { .max = TEXT_MAX };
	enum err rc;

	for (size_t i = 0; i < sizeof(status_faults) / sizeof(status_faults[0]);
	     i++) {
		if (status_faults[i].status == reply->http_status)
			fault = &status_faults[i];
	}
	outcome->kind = fault->kind;
	if ((rc = own_words(reply, &words)) != ERR_OK ||
	    (rc = outcome_say(&outcome->details, "%s", fault->details)) !=
		ERR_OK)
		return rc;
	return outcome_say(&outcome->error_message, "%s: HTTP %ld, %s",
	    fault->message, reply->http_status, buf_str(&words));
}

enum err
outcome_no_answer(
    const struct sandbox_reply *reply, struct outcome *outcome, bool *ret_fault)
{
	*ret_fault = true;
	if (reply->transport != ERR_OK)
		return transport_fault(reply, outcome);
	if (reply->http_status != 200)
		return status_fault(reply, outcome);
	*ret_fault = false;
	return ERR_OK;
}

enum err
outcome_bad_answer(
    const struct sandbox_reply *reply, const char *why, struct outcome *outcome)
{
	CLEANUP_BUF struct buf words = { .max = TEXT_MAX };
	enum err rc;

	outcome->kind = OUTCOME_SANDBOX_ERROR;
	if ((rc = own_words(reply, &words)) != ERR_OK)
		return rc;
	if ((rc = outcome_say(&outcome->details,
		 "What answers at the address "
		 "in the setting snekbox_url is no Snekbox, or it failed while "
		 "it "
		 "answered; its answer began: %s",
		 buf_str(&words))) != ERR_OK)
		return rc;
	return outcome_say(&outcome->error_message,
	    "the sandbox's answer is not as it should be: %s", why);
}

/* Snekbox's words for what went wrong, and what they mean. */
static const struct {
	const char *begins, *details;
} reasons[] = {
	{ "UnicodeDecodeError",
	    "The program's output is not UTF-8, which the "
	    "sandbox does not pass on." },
	{ "FileParsingError: invalid bytes in filename",
	    "The program left a "
	    "file whose name is not UTF-8; the sandbox then returns nothing." },
	{ "FileParsingError: Exceeded directory depth",
	    "The program left "
	    "folders nested too deeply; the sandbox then returns nothing." },
	{ "FileParsingError",
	    "The sandbox could not read the files that the "
	    "program left." },
	{ "TimeoutError",
	    "The sandbox took too long to read the files that "
	    "the program left; let it leave fewer or smaller ones." },
	{ "OSError: Failed to create file",
	    "The files given to the program "
	    "do not fit into the sandbox; send smaller ones." },
	{ "FileExistsError",
	    "Two of the files given to the program have "
	    "names that exclude each other." },
	{ "IsADirectoryError",
	    "Two of the files given to the program have "
	    "names that exclude each other." },
};

enum err
outcome_no_returncode(const char *reason, size_t n, struct outcome *outcome)
{
	CLEANUP_BUF struct buf words = { .max = TEXT_MAX };
	const char *details = "The sandbox could not run the program; its own "
			      "log tells more.";
	enum err rc;

	outcome->kind = OUTCOME_SANDBOX_ERROR;
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		if (strncmp(reason, reasons[i].begins,
			strlen(reasons[i].begins)) == 0) {
			details = reasons[i].details;
			break;
		}
	}
	if ((rc = text_clean(&words, reason, n < EXCERPT ? n : EXCERPT)) !=
		ERR_OK ||
	    (rc = outcome_say(&outcome->details, "%s", details)) != ERR_OK)
		return rc;
	return outcome_say(&outcome->error_message,
	    "the sandbox gave no return code: %s", buf_str(&words));
}
