/* SPDX-License-Identifier: Apache-2.0 */
/*
 * killat: runs a program under ptrace and ends it by SIGKILL when it passes its Nth point.
 *
 *   killat LOG N SYMBOL... -- PROGRAM ARG...
 *
 * A point is a function whose first byte is a one-byte nop (patchable_function_entry(1)): the nop
 * is replaced by int3 and simply passed over, so that no thread ever misses one. The function's
 * first argument is the point's name, the second its side (0 or 1). Each point passed is a line in
 * LOG
 * ("number symbol name side"). N = 0: never kill. Exit status: 0 killed at N; 3 the program ended
 * before; 1 killat itself failed. Children of the program are not traced.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define SYMBOLS_MAX 8

struct point {
    const char *symbol;
    uint64_t address; /* in the file, then in memory */
};

static struct point points[SYMBOLS_MAX];
static unsigned npoints;

static void fail(const char *what)
{
    fprintf(stderr, "killat: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* Looks the symbols up in the program's symbol table. */
static void find_symbols(const char *program)
{
    int fd = open(program, O_RDONLY | O_CLOEXEC);
    struct stat st;
    const uint8_t *file;
    const Elf64_Ehdr *head;
    const Elf64_Shdr *sections;

    if (fd < 0 || fstat(fd, &st) < 0)
        fail(program);
    file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (file == MAP_FAILED)
        fail(program);
    close(fd);
    head = (const Elf64_Ehdr *)file;
    sections = (const Elf64_Shdr *)(file + head->e_shoff);
    for (unsigned s = 0; s < head->e_shnum; s++) {
        if (sections[s].sh_type != SHT_SYMTAB)
            continue;
        const Elf64_Sym *symbols = (const Elf64_Sym *)(file + sections[s].sh_offset);
        const char *names = (const char *)file + sections[sections[s].sh_link].sh_offset;

        for (size_t i = 0; i < sections[s].sh_size / sizeof(*symbols); i++)
            for (unsigned p = 0; p < npoints; p++)
                if (symbols[i].st_value != 0 &&
                    !strcmp(names + symbols[i].st_name, points[p].symbol))
                    points[p].address = symbols[i].st_value;
    }
    for (unsigned p = 0; p < npoints; p++) {
        if (points[p].address != 0)
            continue;
        fprintf(stderr, "killat: %s has no symbol %s\n", program, points[p].symbol);
        exit(1);
    }
}

/* Where a position-independent program was loaded: the start of its first mapping. */
static uint64_t load_base(pid_t pid)
{
    char path[64], exe[4096], line[8192];
    unsigned long long start;
    ssize_t n;
    FILE *maps;

    snprintf(path, sizeof(path), "/proc/%d/exe", pid);
    n = readlink(path, exe, sizeof(exe) - 1);
    if (n < 0)
        fail(path);
    exe[n] = '\0';
    snprintf(path, sizeof(path), "/proc/%d/maps", pid);
    maps = fopen(path, "re");
    if (!maps)
        fail(path);
    while (fgets(line, sizeof(line), maps)) {
        if (!strstr(line, exe) || sscanf(line, "%llx-", &start) != 1)
            continue;
        fclose(maps);
        return start;
    }
    fprintf(stderr, "killat: no mapping of %s\n", exe);
    exit(1);
}

static void insert_breakpoints(pid_t pid)
{
    uint64_t base = load_base(pid);

    for (unsigned p = 0; p < npoints; p++) {
        long word;

        points[p].address += base;
        errno = 0;
        word = ptrace(PTRACE_PEEKTEXT, pid, points[p].address, NULL);
        if (errno != 0 || (word & 0xff) != 0x90) {
            fprintf(stderr, "killat: %s does not begin with a nop\n", points[p].symbol);
            exit(1);
        }
        word = (word & ~0xffL) | 0xcc;
        if (ptrace(PTRACE_POKETEXT, pid, points[p].address, word) < 0)
            fail("insert breakpoint");
    }
}

static void read_name(pid_t tid, uint64_t address, char *name, size_t size)
{
    size_t at = 0;

    while (at + sizeof(long) < size) {
        long word;

        errno = 0;
        word = ptrace(PTRACE_PEEKDATA, tid, address + at, NULL);
        if (errno != 0)
            break;
        memcpy(name + at, &word, sizeof(word));
        if (memchr(&word, '\0', sizeof(word)))
            return;
        at += sizeof(word);
    }
    name[at] = '\0';
}

/* The point a stopped thread stands behind, NULL for another trap. */
static const struct point *point_passed(pid_t tid, struct user_regs_struct *regs)
{
    if (ptrace(PTRACE_GETREGS, tid, NULL, regs) < 0)
        return NULL;
    for (unsigned p = 0; p < npoints; p++)
        if (regs->rip == points[p].address + 1)
            return &points[p];
    return NULL;
}

static int trace(pid_t pid, unsigned long wanted, FILE *log)
{
    unsigned long passed = 0;
    int status;
    pid_t tid;

    while ((tid = waitpid(-1, &status, __WALL)) > 0) {
        struct user_regs_struct regs;
        const struct point *point;
        char name[128];
        int deliver = 0;

        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            if (tid == pid)
                return 3;
            continue;
        }
        if (WSTOPSIG(status) == SIGTRAP && status >> 16 == 0 &&
            (point = point_passed(tid, &regs)) != NULL) {
            read_name(tid, regs.rdi, name, sizeof(name));
            fprintf(log, "%lu %s %s %llu\n", ++passed, point->symbol, name, regs.rsi & 0xff);
            fflush(log);
            if (passed == wanted) {
                kill(pid, SIGKILL);
                while (waitpid(-1, &status, __WALL) > 0)
                    ;
                return 0;
            }
        } else if (WSTOPSIG(status) != SIGTRAP && status >> 16 == 0 &&
                   WSTOPSIG(status) != SIGSTOP) {
            deliver = WSTOPSIG(status);
        }
        ptrace(PTRACE_CONT, tid, NULL, deliver);
    }
    return 1;
}

int main(int argc, char **argv)
{
    unsigned long wanted;
    FILE *log;
    pid_t pid;
    int i, status;

    for (i = 3; i < argc && strcmp(argv[i], "--") != 0 && npoints < SYMBOLS_MAX; i++)
        points[npoints++].symbol = argv[i];
    if (npoints == 0 || i + 1 >= argc || strcmp(argv[i], "--") != 0) {
        fputs("usage: killat LOG N SYMBOL... -- PROGRAM ARG...\n", stderr);
        return 1;
    }
    log = fopen(argv[1], "we");
    wanted = strtoul(argv[2], NULL, 10);
    if (!log)
        fail(argv[1]);
    find_symbols(argv[i + 1]);
    pid = fork();
    if (pid < 0)
        fail("fork");
    if (pid == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        execv(argv[i + 1], argv + i + 1);
        fail(argv[i + 1]);
    }
    if (waitpid(pid, &status, __WALL) != pid || !WIFSTOPPED(status))
        fail("start");
    ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACECLONE);
    insert_breakpoints(pid);
    ptrace(PTRACE_CONT, pid, NULL, 0);
    return trace(pid, wanted, log);
}
