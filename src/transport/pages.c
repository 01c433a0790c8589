#include "transport/pages.h"
#include "transport/route.h"

#define CSP \
	"default-src 'none'; style-src 'unsafe-inline'; " \
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

static const char html_top[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
    "<title>Python sandbox (MCP)</title>\n"
    "<style>body{font:16px/1.5 sans-serif;max-width:40em;margin:3em auto;"
    "padding:0 1em}code,pre{background:#eee;padding:.1em .3em}</style>\n"
    "<h1>Python sandbox</h1>\n"
    "<p>This is a server of the Model Context Protocol. Its tool "
    "<code>execute_python_code</code> runs Python programs in a sandbox and "
    "returns their output, figures and files.</p>\n"
    "<p>To use it, give your MCP client this address (Streamable HTTP; those "
    "that know SSE alone take /sse for /mcp):</p>\n";

static const char text_top[] =
    "Python sandbox: a server of the Model Context Protocol (MCP).\n"
    "Its tool execute_python_code runs Python programs in a sandbox and "
    "returns their output, figures and files.\n\n"
    "To use it, give your MCP client this address (Streamable HTTP; those that "
    "know SSE alone take /sse for /mcp):\n";

/* The path is safe in HTML and text: http_path_normal let nothing else
 * through but "&", which it escaped. */
static enum err
page(const struct exchange *exchange, bool html, struct buf *out)
{
	enum err rc;

	if ((rc = buf_puts(out, html ? html_top : text_top)) != ERR_OK ||
	    (rc = buf_puts(out, html ? "<pre>" : "    ")) != ERR_OK ||
	    (rc = route_prefix(exchange, out)) != ERR_OK)
		return rc;
	return buf_puts(out, html ? "/mcp</pre>\n</html>\n" : "/mcp\n");
}

void
pages_index(struct exchange *exchange)
{
	const char *accept = http_field(&exchange->request, "HTTP_ACCEPT");
	struct http_response *response = &exchange->response;
	bool html = accept != NULL && http_accepts(accept, "text/html");

	if (page(exchange, html, &response->body) != ERR_OK ||
	    http_header(response, "Content-Type",
		html ? "text/html; charset=utf-8"
		     : "text/plain; charset=utf-8") != ERR_OK ||
	    http_header(response, "Content-Security-Policy", CSP) != ERR_OK ||
	    http_header(response, "X-Content-Type-Options", "nosniff") !=
		ERR_OK ||
	    http_header(response, "Referrer-Policy", "no-referrer") != ERR_OK)
		http_error_of(response, ERR_NOMEM, NULL);
}
