/* python-sandbox check */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/execution.h"
#include "cli/findings.h"

#define ANSWER_DEPTH 4

static const char probe[] =
    "import json, os, sys\n"
    "from importlib import metadata, util\n"
    "told = {'python': '%d.%d.%d' % sys.version_info[:3]}\n"
    "for name in ('numpy', 'matplotlib', 'pandas'):\n"
    "    try:\n"
    "        told[name] = util.find_spec(name) and metadata.version(name)\n"
    "    except Exception:\n"
    "        told[name] = None\n"
    "names = {n for _, _, all in os.walk('/usr/share/fonts') for n in all\n"
    "         if n.lower().endswith(('.ttf', '.otf', '.ttc'))}\n"
    "told['fonts'] = str(len(names))\n"
    "told['cjk'] = next((n for n in sorted(names) if 'CJK' in n or\n"
    "    n.startswith(('wqy', 'DroidSansFallback'))), None)\n"
    "print(json.dumps(told))\n";

static const struct {
	const char *name, *cure;
} packages[] = {
	{ "numpy",
	    "apt-get install python3-numpy, and restart sandboxd (in a "
	    "Snekbox: pip install --user numpy)" },
	{ "matplotlib",
	    "apt-get install python3-matplotlib, and restart "
	    "sandboxd (in a Snekbox: pip install --user "
	    "matplotlib); without it there are no figures" },
	{ "pandas",
	    "apt-get install python3-pandas, and restart sandboxd (in "
	    "a Snekbox: pip install --user pandas)" },
};

static void
tell_packages(struct findings *findings, const cJSON *told)
{
	for (size_t i = 0; i < sizeof(packages) / sizeof(packages[0]); i++) {
		const char *version = json_get_string(told, packages[i].name);

		if (version != NULL)
			findings_add(findings, packages[i].name, FINDING_OK,
			    NULL, "%s", version);
		else
			findings_add(findings, packages[i].name,
			    FINDING_WARNING, packages[i].cure, "missing");
	}
}

static void
tell_fonts(struct findings *findings, const cJSON *told)
{
	const char *fonts = json_get_string(told, "fonts");
	const char *cjk = json_get_string(told, "cjk");

	if (fonts == NULL)
		return;
	if (cjk != NULL)
		findings_add(findings, "fonts", FINDING_OK, NULL,
		    "%s files, %s for Chinese, Japanese and Korean", fonts,
		    cjk);
	else
		findings_add(findings, "fonts", FINDING_WARNING,
		    "apt-get install fonts-noto-cjk, and restart sandboxd",
		    "%s files of the system, none for Chinese, Japanese and "
		    "Korean",
		    fonts);
}

static void
tell_answer(struct findings *findings, const struct engine *engine,
    const struct outcome *outcome)
{
	const char *text = outcome->text != NULL ? outcome->text : "";
	CLEANUP_JSON cJSON *told = NULL;

	if (outcome->kind != OUTCOME_OK ||
	    json_parse(text, strlen(text), ANSWER_DEPTH, &told, NULL) !=
		ERR_OK) {
		findings_add(findings, "sandbox", FINDING_FAULT,
		    outcome->details != NULL
			? outcome->details
			: "look into the log of the sandbox",
		    "%s: %s", snekbox_name(engine->snekbox, 0),
		    outcome->error_message != NULL ? outcome->error_message
						   : "a strange answer");
		return;
	}
	findings_add(findings, "sandbox", FINDING_OK, NULL,
	    "%s, answered within %llu ms",
	    engine->keeper.pid > 0 ? "sandboxd of our own"
				   : snekbox_name(engine->snekbox, 0),
	    (unsigned long long)outcome->duration_ms);
	findings_add(findings, "python", FINDING_OK, NULL, "%s",
	    json_get_string(told, "python"));
	tell_packages(findings, told);
	tell_fonts(findings, told);
}

static void
ask_sandbox(struct findings *findings, struct conf *conf)
{
	struct engine engine = { .conf = conf };
	struct sandbox_job job = { .code = strdup(probe),
		.code_len = sizeof(probe) - 1 };
	struct conf_fault fault = { "" };
	struct outcome outcome;
	enum err rc = job.code != NULL ? ERR_OK : ERR_NOMEM;

	if (rc == ERR_OK &&
	    (rc = engine_open(&engine, conf, &fault)) == ERR_OK &&
	    (rc = execution_run(&engine, &job, NULL, &outcome)) == ERR_OK) {
		tell_answer(findings, &engine, &outcome);
		outcome_done(&outcome);
	}
	if (rc != ERR_OK)
		findings_add(findings, "sandbox", FINDING_FAULT,
		    "see what stands on standard error, and the checks above",
		    "%s",
		    fault.text[0] != '\0' ? fault.text
			: engine.sandbox_ended
			? "the sandbox service ended by itself"
			: err_info(rc)->text);
	engine_close(&engine);
	sandbox_job_done(&job);
}

static void
tell_limits(struct findings *findings, const struct conf *conf, bool local)
{
	if (local)
		findings_add(findings, "limits", FINDING_OK, NULL,
		    "%g s, %llu MiB of memory, %llu MiB of disk, %llu "
		    "processes, %llu characters of output",
		    (double)conf->sandbox_time_limit / 1000,
		    (unsigned long long)conf->jail_memory >> 20,
		    (unsigned long long)conf->jail_disk >> 20,
		    (unsigned long long)conf->jail_processes,
		    (unsigned long long)conf->jail_output);
	else
		findings_add(findings, "limits", FINDING_OK, NULL,
		    "%g s (setting sandbox_time_limit); the others are the "
		    "sandbox's own",
		    (double)conf->sandbox_time_limit / 1000);
}

int
command_check(struct conf *conf, const struct conf_fault *fault, bool json)
{
	struct findings findings = { .n = 0 };
	bool local;

	findings_add(&findings, "version", FINDING_OK, NULL, "%s, libcurl %s",
	    VERSION, snekbox_version());
	if (conf == NULL) {
		findings_add(&findings, "settings", FINDING_FAULT,
		    "correct it where it is set; the README lists all "
		    "settings",
		    "%s", fault->text);
	} else {
		local = conf->snekbox_url[0] == '\0' ||
		    strncmp(conf->snekbox_url, "unix:", 5) == 0;
		findings_add(
		    &findings, "settings", FINDING_OK, NULL, "well-formed");
		if (local)
			findings_machine(&findings);
		tell_limits(&findings, conf, local);
		ask_sandbox(&findings, conf);
	}
	findings_web(&findings);
	return findings_print(&findings, json) == ERR_OK &&
		findings_good(&findings)
	    ? EXIT_SUCCESS
	    : EXIT_FAILURE;
}
