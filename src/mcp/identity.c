#include "mcp/identity.h"

#ifndef VERSION
#define VERSION "0"
#endif

#define SERVER_NAME "python-sandbox-mcp"
#define SERVER_TITLE "Python Sandbox"
#define SERVER_DESCRIPTION \
	"Runs Python programs in a sandbox and returns text and figures."
#define INSTRUCTIONS \
	"Call execute_python_code with a whole Python program. Every call " \
	"runs " \
	"in a fresh sandbox without network; nothing is kept between calls. " \
	"Print what you want to read; matplotlib figures come back as images."
#define CAPABILITIES "{\"tools\":{},\"resources\":{}}"
/* lists change with the program alone */
#define CACHE "\"ttlMs\":300000,\"cacheScope\":\"public\""

enum err
identity_server(struct buf *out, enum revision revision)
{
	enum err rc;

	rc = buf_puts(out, "{\"name\":\"" SERVER_NAME "\"");
	if (rc == ERR_OK && revision >= REVISION_2025_06_18)
		rc = buf_puts(out, ",\"title\":\"" SERVER_TITLE "\"");
	if (rc == ERR_OK && revision >= REVISION_2025_11_25)
		rc = buf_puts(
		    out, ",\"description\":\"" SERVER_DESCRIPTION "\"");
	if (rc == ERR_OK)
		rc = buf_puts(out, ",\"version\":\"" VERSION "\"}");
	return rc;
}

enum err
identity_initialized(struct buf *out, enum revision revision, const char *facts)
{
	enum err rc;

	rc = buf_printf(out,
	    "{\"protocolVersion\":\"%s\","
	    "\"capabilities\":" CAPABILITIES ",\"serverInfo\":",
	    revision_name(revision));
	if (rc == ERR_OK)
		rc = identity_server(out, revision);
	if (rc == ERR_OK)
		rc = buf_printf(
		    out, ",\"instructions\":\"" INSTRUCTIONS "%s\"}", facts);
	return rc;
}

enum err
identity_discovered(struct buf *out, const char *facts)
{
	size_t from = out->len;
	enum err rc;

	/* the older revisions are reached by initialize, not by this list */
	rc = buf_printf(out,
	    "{\"supportedVersions\":[\"%s\"],"
	    "\"capabilities\":" CAPABILITIES ",\"instructions\":\"" INSTRUCTIONS
	    "%s\"}",
	    revision_name(REVISION_2026_07_28), facts);
	return rc != ERR_OK
	    ? rc
	    : identity_tail(out, from, REVISION_2026_07_28, true);
}

enum err
identity_tail(
    struct buf *out, size_t from, enum revision revision, bool cacheable)
{
	enum err rc;

	if (revision < REVISION_2026_07_28)
		return ERR_OK;
	if (out->len < from + 2 || out->data[out->len - 1] != '}')
		return ERR_INTERNAL;
	out->data[--out->len] = '\0';
	if (out->len > from + 1 && (rc = buf_putc(out, ',')) != ERR_OK)
		return rc;
	if (cacheable && (rc = buf_puts(out, CACHE ",")) != ERR_OK)
		return rc;
	if ((rc = buf_puts(out,
		 "\"resultType\":\"complete\",\"_meta\":{"
		 "\"io.modelcontextprotocol/serverInfo\":")) != ERR_OK ||
	    (rc = identity_server(out, revision)) != ERR_OK)
		return rc;
	return buf_puts(out, "}}");
}
