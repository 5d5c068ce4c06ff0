/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/completion.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "orchestrator/settings.h"
#include "orchestrator/settings_table.h"

#define SCRIPT_MAX (256U << 10)

static bool has_word(const struct vt_buf *words, const char *word, size_t len)
{
    const char *at = words->data ? words->data : "";

    for (size_t n; at += strspn(at, " "), (n = strcspn(at, " ")) > 0; at += n)
        if (n == len && !memcmp(at, word, len))
            return true;
    return false;
}

/* "show|verify" of "vtile results show|verify [OPTION]...": lower-case words only. */
static void add_verbs(const char *at, struct vt_buf *out)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz-";
    size_t whole = strcspn(at, " \n");

    if (strspn(at, "abcdefghijklmnopqrstuvwxyz-|") < whole || at[0] == '-')
        return;
    while (whole > 0) {
        size_t n = strspn(at, letters);

        if (!has_word(out, at, n)) {
            vt_buf_adds(out, " ");
            vt_buf_add(out, at, n);
        }
        at += n;
        whole -= n;
        if (whole > 0) {
            at++;
            whole--;
        }
    }
}

void completion_verbs(const struct command *command, struct vt_buf *out)
{
    char head[64];
    int n = snprintf(head, sizeof(head), "vtile %s ", command->name);

    for (const char *line = command->use->usage; line && *line;) {
        const char *text = line + strspn(line, " ");

        if (!strncmp(text, head, (size_t)n))
            add_verbs(text + n, out);
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
}

/* " --spec --tiles": those without a value, or those with one, or both. */
static void add_options(const struct settings_use *use, bool with_value, bool without,
                        struct vt_buf *out)
{
    for (size_t i = 0; i < use->noptions; i++)
        if (use->options[i].arg ? with_value : without)
            vt_buf_printf(out, " --%s", use->options[i].name);
    for (size_t row = 0; row < settings_count; row++)
        if (settings_has(use, row) && (settings_rows[row].arg ? with_value : without))
            vt_buf_printf(out, " --%s", settings_fields[row].key);
    if (without)
        vt_buf_adds(out, " --help");
}

static void add_names(const char *const *names, struct vt_buf *out)
{
    for (; *names; names++)
        vt_buf_printf(out, " %s", *names);
}

/* What a value can be: words where there is a list of them, else a file. */
static void write_values(struct vt_buf *out)
{
    vt_buf_adds(out, "    case $before in\n    --preset) words='");
    add_names(spec_preset_names, out);
    vt_buf_adds(out, "' ;;\n    --spec) words='");
    add_names(spec_builtin_names(), out);
    vt_buf_adds(out, "' files=1 ;;\n"
                     "    --host) words=' auto embed qemu:///system' ;;\n"
                     "    --state | --runtime | --cache | --config) files=1 ;;\n"
                     "    *)\n"
                     "        case \" $valued \" in *\" $before \"*) return ;; esac\n"
                     "        case $word in\n"
                     "        -*) words=$options ;;\n"
                     "        *) words=\"$verbs $options\" files=1 ;;\n"
                     "        esac\n"
                     "        ;;\n"
                     "    esac\n");
}

/* A colon and an equals sign break words in bash; nothing here is completed behind one but
 * qemu:///system, of which the last piece is given then. */
static const char head[] =
    "# bash completion of vtile, written by `vtile completion bash`.\n"
    "# Source it, or keep it as /usr/share/bash-completion/completions/vtile.\n"
    "_vtile() {\n"
    "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n"
    "    local command=${COMP_WORDS[1]} words='' files='' verbs='' options='' valued=''\n"
    "    COMPREPLY=()\n"
    "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n";

void completion_write_bash(const struct command *table, size_t n, struct vt_buf *out)
{
    VT_AUTO_BUF struct vt_buf verbs = VT_BUF_INIT(4096);

    vt_buf_adds(out, head);
    vt_buf_adds(out, "        mapfile -t COMPREPLY < <(compgen -W '");
    for (size_t i = 0; i < n; i++)
        vt_buf_printf(out, "%s ", table[i].name);
    vt_buf_adds(out,
                "--help --version' -- \"$word\")\n        return\n    fi\n    case $command in\n");
    for (size_t i = 0; i < n; i++) {
        vt_buf_printf(out, "    %s)\n        verbs='", table[i].name);
        completion_verbs(&table[i], &verbs);
        if (verbs.data)
            vt_buf_adds(out, verbs.data);
        vt_buf_reset(&verbs);
        vt_buf_adds(out, "'\n        options='");
        add_options(table[i].use, true, true, out);
        vt_buf_adds(out, "'\n        valued='");
        add_options(table[i].use, true, false, out);
        vt_buf_adds(out, "'\n        ;;\n");
    }
    vt_buf_adds(out, "    esac\n");
    write_values(out);
    vt_buf_adds(out, "    mapfile -t COMPREPLY < <(\n"
                     "        compgen -W \"$words\" -- \"$word\"\n"
                     "        [ -z \"$files\" ] || compgen -f -- \"$word\"\n"
                     "    )\n"
                     "}\n"
                     "complete -o filenames -F _vtile vtile\n");
}

const struct settings_use completion_use = {
    .usage = "vtile completion bash\n\n"
             "Prints a script for bash that completes commands, options and their values:\n"
             "    source <(vtile completion bash)",
    .operands = true};

int command_completion(int argc, char **argv, struct vt_error *err)
{
    VT_AUTO_FREE struct run_settings *settings = calloc(1, sizeof(*settings));
    VT_AUTO_BUF struct vt_buf script = VT_BUF_INIT(SCRIPT_MAX);
    int first = argc, r;

    if (!settings)
        return vt_error_no_memory(err, "completion");
    r = settings_begin(argc, argv, &completion_use, settings, &first, err);
    if (r != 0)
        return r < 0 ? r : 0;
    if (first + 1 != argc || strcmp(argv[first], "bash") != 0)
        return vt_error_set(err, VT_KIND_USAGE, -EINVAL,
                            "`vtile completion` wants the shell: bash; see its --help");
    completion_write_bash(commands, commands_count, &script);
    r = vt_buf_check(&script, "print the script", err);
    if (r == 0)
        fputs(script.data, stdout);
    return r;
}
