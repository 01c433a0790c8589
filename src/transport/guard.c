#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "transport/guard.h"

bool
guard_is_loopback(const char *name, size_t n)
{
	char text[INET6_ADDRSTRLEN];
	struct in6_addr six;
	struct in_addr four;

	if (n > 0 && name[n - 1] == '.')
		n--;
	if (n == strlen("localhost") && strncasecmp(name, "localhost", n) == 0)
		return true;
	if (n == 0 || n >= sizeof(text))
		return false;
	memcpy(text, name, n);
	text[n] = '\0';
	if (strlen(text) != n)
		return false;
	if (inet_pton(AF_INET, text, &four) == 1)
		return (ntohl(four.s_addr) >> 24) == 127;
	if (inet_pton(AF_INET6, text, &six) != 1)
		return false;
	return IN6_IS_ADDR_LOOPBACK(&six) ||
	    (IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == 127);
}

static bool
is_port(const char *text)
{
	size_t n = strspn(text, "0123456789");
	unsigned port = 0;

	if (n == 0 || n > 5 || text[n] != '\0')
		return false;
	for (size_t i = 0; i < n; i++)
		port = port * 10 + (unsigned)(text[i] - '0');
	return port <= 65535;
}

/* Splits "name", "name:port", "[v6]" or "[v6]:port" and checks the form. */
static bool
split_host(const char *text, const char **ret_name, size_t *ret_len)
{
	const char *name = text, *rest;
	size_t n;

	if (*text == '[') {
		name = text + 1;
		n = strcspn(name, "]");
		if (name[n] != ']')
			return false;
		rest = name + n + 1;
	} else {
		n = strcspn(name, ":");
		rest = name + n;
	}
	if (n == 0 || (*rest != '\0' && (*rest != ':' || !is_port(rest + 1))))
		return false;
	for (size_t i = 0; i < n; i++) {
		if (strchr("/\\@?# \t", name[i]) != NULL)
			return false;
	}
	*ret_name = name;
	*ret_len = n;
	return true;
}

/* ERR_BUSY stands for "found": it stops conf_each. */
static enum err
is_same(const char *item, void *arg)
{
	return strcmp(item, arg) == 0 ? ERR_BUSY : ERR_OK;
}

bool
guard_origin(const struct conf *conf, const char *origin)
{
	const char *host, *name;
	size_t n;

	if (origin == NULL)
		return true;
	if (strncmp(origin, "http://", 7) == 0)
		host = origin + 7;
	else if (strncmp(origin, "https://", 8) == 0)
		host = origin + 8;
	else
		host = NULL;
	if (host != NULL && split_host(host, &name, &n) &&
	    guard_is_loopback(name, n))
		return true;
	/* "null" is what every sandboxed page sends: never a name to allow */
	return strcmp(origin, "null") != 0 &&
	    conf_each(conf->allowed_origins, is_same, (void *)origin) ==
	    ERR_BUSY;
}

struct host_name {
	const char *name;
	size_t len;
	const char *whole;
};

static enum err
is_allowed_host(const char *item, void *arg)
{
	const struct host_name *host = arg;

	if (strcasecmp(item, host->whole) == 0)
		return ERR_BUSY;
	return strlen(item) == host->len &&
		strncasecmp(item, host->name, host->len) == 0
	    ? ERR_BUSY
	    : ERR_OK;
}

/* Whether the web server was reached over loopback. */
static bool
over_loopback(const struct http_request *request)
{
	const char *address = http_field(request, "SERVER_ADDR");

	if (address == NULL || address[0] == '\0')
		address = http_field(request, "REMOTE_ADDR");
	if (address == NULL || address[0] == '\0')
		return false;
	if (address[0] == '[' && address[strlen(address) - 1] == ']')
		return guard_is_loopback(address + 1, strlen(address) - 2);
	return guard_is_loopback(address, strlen(address));
}

bool
guard_host(const struct conf *conf, const struct http_request *request)
{
	const char *text = http_field(request, "HTTP_HOST");
	struct host_name host;

	/* a browser, the only one to be feared here, always sends Host */
	if (text == NULL || text[0] == '\0' || !over_loopback(request))
		return true;
	host.whole = text;
	if (!split_host(text, &host.name, &host.len))
		return false;
	return guard_is_loopback(host.name, host.len) ||
	    conf_each(conf->allowed_hosts, is_allowed_host, &host) == ERR_BUSY;
}
