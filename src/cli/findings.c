#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "cli/findings.h"

#define TEXT_MAX ((size_t)1 << 20)

static const char *const words[] = { "ok", "warning", "fault" };

void
findings_add(struct findings *findings, const char *name,
    enum finding_state state, const char *cure, const char *fmt, ...)
{
	struct finding *finding = &findings->all[findings->n];
	va_list ap;

	if (findings->n == FINDINGS_MAX)
		return;
	findings->n++;
	finding->name = name;
	finding->state = state;
	va_start(ap, fmt);
	vsnprintf(finding->found, sizeof(finding->found), fmt, ap);
	va_end(ap);
	snprintf(finding->cure, sizeof(finding->cure), "%s",
	    cure != NULL ? cure : "");
}

bool
findings_good(const struct findings *findings)
{
	for (size_t i = 0; i < findings->n; i++) {
		if (findings->all[i].state == FINDING_FAULT)
			return false;
	}
	return true;
}

static enum err
put_member(struct buf *out, const char *name, const char *text)
{
	enum err rc = buf_printf(out, "\"%s\":", name);

	return rc == ERR_OK ? json_quote(out, text, strlen(text)) : rc;
}

static enum err
put_finding(struct buf *out, const struct finding *finding)
{
	enum err rc;

	if ((rc = buf_putc(out, '{')) != ERR_OK ||
	    (rc = put_member(out, "name", finding->name)) != ERR_OK ||
	    (rc = buf_putc(out, ',')) != ERR_OK ||
	    (rc = put_member(out, "state", words[finding->state])) != ERR_OK ||
	    (rc = buf_putc(out, ',')) != ERR_OK ||
	    (rc = put_member(out, "found", finding->found)) != ERR_OK ||
	    (rc = buf_putc(out, ',')) != ERR_OK ||
	    (rc = put_member(out, "cure", finding->cure)) != ERR_OK)
		return rc;
	return buf_putc(out, '}');
}

static enum err
print_json(const struct findings *findings)
{
	CLEANUP_BUF struct buf out = { .max = TEXT_MAX };
	enum err rc = buf_printf(&out, "{\"ok\":%s,\"checks\":[",
	    findings_good(findings) ? "true" : "false");

	for (size_t i = 0; rc == ERR_OK && i < findings->n; i++) {
		if (i > 0)
			rc = buf_putc(&out, ',');
		if (rc == ERR_OK)
			rc = put_finding(&out, &findings->all[i]);
	}
	if (rc == ERR_OK)
		rc = buf_puts(&out, "]}");
	if (rc == ERR_OK && puts(out.data) < 0)
		rc = ERR_SYS;
	return rc;
}

enum err
findings_print(const struct findings *findings, bool json)
{
	if (json)
		return print_json(findings);
	for (size_t i = 0; i < findings->n; i++) {
		const struct finding *finding = &findings->all[i];

		printf("%-8s %-16s %s\n", words[finding->state], finding->name,
		    finding->found);
		if (finding->cure[0] != '\0')
			printf("%25s cure: %s\n", "", finding->cure);
	}
	puts(findings_good(findings) ? "all is well" : "there are faults");
	return fflush(stdout) == 0 ? ERR_OK : ERR_SYS;
}
