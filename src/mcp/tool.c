/* The definition of the tool. In the texts below ' stands for ": schemas are
 * to be read, and no text of ours needs an apostrophe. */
#include <string.h>

#include "mcp/tool.h"

#define TITLE "Execute Python Code"

static const char description[] =
    "Runs a Python program in an isolated sandbox and returns what it "
    "printed, the value of its last expression, its figures as images, "
    "and, when it fails, the exact traceback. Each call starts afresh: "
    "nothing is kept between calls, there is no network. Matplotlib "
    "figures need no saving; saved PNG files come back too.";

/* %llu: code_max; %g: the longest time */
static const char input_schema[] =
    "{'type':'object','properties':{"
    "'python_code':{'type':'string','description':"
    "'The whole program, as the text of a file (at most %llu bytes).'},"
    "'stdin':{'type':'string','description':"
    "'What the program reads from standard input.'},"
    "'files':{'type':'array','maxItems':%d,'description':"
    "'Files to put into the working folder before the program starts.',"
    "'items':{'type':'object','properties':{"
    "'path':{'type':'string','description':"
    "'Relative path, without .. and control characters.'},"
    "'text':{'type':'string','description':"
    "'Content as text; give this or base64.'},"
    "'base64':{'type':'string','description':"
    "'Content as base64; give this or text.'}},"
    "'required':['path'],'additionalProperties':false}},"
    "'timeout_seconds':{'type':'number','minimum':1,'maximum':%g,"
    "'description':'Longest running time; the maximum when absent.'}},"
    "'required':['python_code'],'additionalProperties':false}";

/* Every result conforms, failures too. Two members beside each other that are
 * never both there would need oneOf, which some clients cannot read: they are
 * simply not required. */
static const char output_schema[] =
    "{'type':'object','properties':{"
    "'status':{'type':'string','enum':['success','error']},"
    "'returncode':{'type':['integer','null'],'description':"
    "'Exit code as the sandbox gave it; null when there was none.'},"
    "'output_type':{'type':'string','enum':['plot','text','none']},"
    "'stdout':{'type':'string','description':"
    "'What the program wrote, standard error included, in order.'},"
    "'stdout_bytes':{'type':'integer','minimum':0,'description':"
    "'All bytes that it wrote.'},"
    "'truncated':{'type':'boolean','description':"
    "'Whether stdout or another text is not all of it.'},"
    "'result':{'type':'string','description':"
    "'repr() of the last expression.'},"
    "'error_type':{'type':'string','enum':['execution_error','timeout',"
    "'memory_limit','output_limit','process_limit','crash','busy',"
    "'sandbox_unavailable','sandbox_error','cancelled']},"
    "'error_message':{'type':'string'},"
    "'details':{'type':'string','description':"
    "'What happened and what to do, in one sentence.'},"
    "'exception':{'type':'object','properties':{"
    "'type':{'type':'string'},'message':{'type':'string'},"
    "'line':{'type':'integer','minimum':1},"
    "'traceback':{'type':'string'}}},"
    "'plots':{'type':'array','description':"
    "'Every figure, in order of creation.','items':{'type':'object',"
    "'properties':{'name':{'type':'string'},"
    "'width':{'type':'integer','minimum':0},"
    "'height':{'type':'integer','minimum':0},"
    "'bytes':{'type':'integer','minimum':0},"
    "'uri':{'type':'string','description':"
    "'Where resources/read has it, for a while.'},"
    "'url':{'type':'string','description':"
    "'Where HTTP has it, for a while.'},"
    "'reason':{'type':'string','description':"
    "'Why there is no image of it in content.'}},"
    "'required':['name','width','height','bytes']}},"
    "'plot_path':{'type':'string','description':'The uri of the last figure.'},"
    "'files':{'type':'array','description':"
    "'Every other file left behind.','items':{'type':'object',"
    "'properties':{'path':{'type':'string'},"
    "'bytes':{'type':'integer','minimum':0},"
    "'media_type':{'type':'string'},"
    "'uri':{'type':'string','description':"
    "'Where resources/read has it, for a while.'},"
    "'url':{'type':'string','description':"
    "'Where HTTP has it, for a while.'},"
    "'reason':{'type':'string','description':"
    "'Why its content is not given.'}},"
    "'required':['path','bytes']}},"
    "'files_omitted':{'type':'integer','minimum':1,'description':"
    "'How many more figures and files there are than are listed.'},"
    "'duration_ms':{'type':'integer','minimum':0},"
    "'queued_ms':{'type':'integer','minimum':0},"
    "'limits':{'type':'object','properties':{"
    "'time_seconds':{'type':'number'},"
    "'memory_bytes':{'type':'integer'},"
    "'output_bytes':{'type':'integer'},"
    "'disk_bytes':{'type':'integer'},"
    "'processes':{'type':'integer'}}}},"
    "'required':['status','returncode','output_type','stdout',"
    "'stdout_bytes','truncated','plots','files','duration_ms',"
    "'queued_ms','limits']}";

/* Gives the part behind from its double quotes. */
static void
restore_quotes(struct buf *out, size_t from)
{
	for (size_t i = from; i < out->len; i++) {
		if (out->data[i] == '\'')
			out->data[i] = '"';
	}
}

static enum err
append_input(struct buf *out, const struct conf *conf)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	return buf_printf(out, input_schema, (unsigned long long)conf->code_max,
	    TOOL_FILES_MAX, (double)conf->sandbox_time_limit / 1000);
#pragma GCC diagnostic pop
}

static enum err
append_annotations(struct buf *out, enum revision revision)
{
	if (revision < REVISION_2025_03_26)
		return ERR_OK;
	return buf_puts(out,
	    ",'annotations':{'title':'" TITLE "',"
	    "'readOnlyHint':false,'destructiveHint':false,"
	    "'idempotentHint':false,'openWorldHint':false}");
}

enum err
tool_list(struct buf *out, const struct conf *conf, enum revision revision)
{
	size_t from = out->len;
	enum err rc;

	rc = buf_puts(out, "{'tools':[{'name':'" TOOL_NAME "'");
	if (rc == ERR_OK && revision >= REVISION_2025_06_18)
		rc = buf_puts(out, ",'title':'" TITLE "'");
	if (rc == ERR_OK)
		rc = buf_printf(
		    out, ",'description':'%s','inputSchema':", description);
	if (rc == ERR_OK)
		rc = append_input(out, conf);
	if (rc == ERR_OK && revision >= REVISION_2025_06_18)
		rc = buf_printf(out, ",'outputSchema':%s", output_schema);
	if (rc == ERR_OK)
		rc = append_annotations(out, revision);
	if (rc == ERR_OK)
		rc = buf_puts(out, "}]}");
	restore_quotes(out, from);
	return rc;
}
