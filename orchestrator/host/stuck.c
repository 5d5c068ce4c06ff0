/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/host/stuck.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/host/embed.h"

#define PROCESSES_MAX 4

static bool read_line(const char *path, char *line, size_t size)
{
    VT_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, line, size - 1);

    if (n <= 0)
        return false;
    line[n] = 0;
    line[strcspn(line, "\n")] = 0;
    return true;
}

/* The kernel's function in which a task sleeps; "" for one that runs or may not be looked at. */
static void read_wait(const char *task, char *ret, size_t size)
{
    char path[288];

    snprintf(path, sizeof(path), "/proc/%s/wchan", task);
    if (!read_line(path, ret, size) || !strcmp(ret, "0"))
        ret[0] = 0;
    vt_text_make_plain(ret);
}

/* proc(5): pid (comm) state ppid; comm may hold anything, so its end is the last parenthesis. */
static bool read_stat(const char *pid, char name[17], char *state, int *parent)
{
    char path[288], line[256];

    snprintf(path, sizeof(path), "/proc/%s/stat", pid);
    if (!read_line(path, line, sizeof(line)))
        return false;
    char *begin = strchr(line, '('), *end = strrchr(line, ')');
    if (!begin || !end || sscanf(end + 1, " %c %d", state, parent) != 2)
        return false;
    *end = 0;
    vt_text_copy(name, 17, begin + 1);
    vt_text_make_plain(name);
    return true;
}

static void add_processes(const char *root, struct vt_buf *text)
{
    DIR *proc = opendir("/proc");
    char name[17], state, wait[48];
    struct dirent *entry;
    int parent, n = 0;

    while (proc && n < PROCESSES_MAX && (entry = readdir(proc))) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid <= 1 || !read_stat(entry->d_name, name, &state, &parent) ||
            (parent != getpid() && !(root && embed_is_emulator(root, pid))))
            continue;
        read_wait(entry->d_name, wait, sizeof(wait));
        vt_buf_printf(text, "%s %d %s (%c%s%s)", n++ ? "," : "; its processes:", (int)pid, name,
                      state, wait[0] ? ", " : "", wait);
    }
    if (proc)
        closedir(proc);
}

void stuck_describe(const char *call, pid_t thread, const char *root, char *ret, size_t size)
{
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(4096);
    char task[64], wait[48];

    snprintf(task, sizeof(task), "self/task/%d", (int)thread);
    read_wait(task, wait, sizeof(wait));
    vt_buf_printf(&text, "%s%s", call[0] ? "in " : "between calls", call);
    if (wait[0])
        vt_buf_printf(&text, ", waiting in %s", wait);
    add_processes(root, &text);
    vt_text_copy(ret, size, text.len ? text.data : "");
}
