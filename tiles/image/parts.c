/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/image/parts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/proc.h"
#include "base/scope.h"
#include "tiles/embedded.h"
#include "tiles/image/bzimage.h"
#include "tiles/image/initrd.h"

/* Goes into the keys: raise it when the code below makes something else from the same input. */
#define FORMAT "1"

#define ROLES_PREFIX "tiles/roles/"
#define ROLE_NAME_MAX 64
/* Of a role's files, what packages.sh runs in the root of the packages. */
#define ROLE_RECIPE "image.sh"
#define PROGRAM_BYTES_MAX (256u << 20)
#define MKFS_TIMEOUT_NS (5 * 60 * VT_NS_PER_S)
/* The unpacked root and the image beside it; the present list needs 0.3 GiB. */
#define ROOM_BYTES (1ULL << 30)

static int join(char *ret, size_t size, const char *folder, const char *file, struct vt_error *err)
{
    int n = snprintf(ret, size, "%s/%s", folder, file);

    if (n < 0 || (size_t)n >= size)
        return vt_error_set(err, VT_KIND_CONFIG, -ENAMETOOLONG, "path too long: %.200s", folder);
    return 0;
}

static int make_folder(const char *path, struct vt_error *err)
{
    if (mkdir(path, 0755) < 0 && errno != EEXIST)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "create %s", path);
    return chmod(path, 0755) < 0 ? vt_error_errno(err, VT_KIND_INFRA, errno, "chmod %s", path) : 0;
}

/* Kernel. */

static void kernel_key(const struct image_work *work, struct image_digest *digest)
{
    image_digest_add_text(digest, "package", work->resolution.kernel);
    image_digest_add_text(digest, "version", work->resolution.kernel_version);
    image_digest_add_text(digest, "modules", image_recipe("modules.txt"));
    image_digest_add_text(digest, "recipe", image_recipe("kernel.sh"));
}

static int kernel_make(const struct image_work *work, const char *folder, struct vt_error *err)
{
    const struct image_resolution *res = &work->resolution;
    const char *args[] = {folder, res->folder, res->kernel, res->kernel_version};
    char vmlinuz[VT_PATH_MAX], vmlinux[VT_PATH_MAX], tree[VT_PATH_MAX], modules[VT_PATH_MAX];
    char file[IMAGE_PACKAGE_NAME_MAX + 32];
    int r = image_recipe_run("kernel.sh", args, VT_COUNT(args), false, NULL, err);

    /* "linux-image-6.1.0-42-cloud-amd64" holds boot/vmlinuz-6.1.0-42-cloud-amd64. */
    snprintf(file, sizeof file, "kernel/boot/vmlinuz-%s", res->kernel + strlen("linux-image-"));
    if (r == 0)
        r = join(vmlinuz, sizeof vmlinuz, folder, file, err);
    if (r == 0)
        r = join(vmlinux, sizeof vmlinux, folder, "vmlinux", err);
    if (r == 0)
        r = join(tree, sizeof tree, folder, "kernel", err);
    if (r == 0)
        r = join(modules, sizeof modules, folder, "modules", err);
    if (r == 0)
        r = image_vmlinux_extract(vmlinuz, vmlinux, err);
    if (r == 0)
        r = make_folder(modules, err);
    if (r == 0)
        r = image_modules_extract(tree, image_recipe("modules.txt"), modules, err);
    return r < 0 ? r : image_cache_remove(tree, err);
}

/* "tiles/roles/web/files/nginx.conf.in" -> "web", "nginx.conf.in". */
static bool role_file(const char *path, char *role, size_t size, const char **ret_file)
{
    const char *name = path + strlen(ROLES_PREFIX), *slash;

    if (strncmp(path, ROLES_PREFIX, strlen(ROLES_PREFIX)) != 0)
        return false;
    slash = strchr(name, '/');
    if (!slash || strncmp(slash, "/files/", 7) != 0 || (size_t)(slash - name) >= size)
        return false;
    memcpy(role, name, (size_t)(slash - name));
    role[slash - name] = '\0';
    *ret_file = slash + 7;
    return true;
}

/* Packages. */

/* The i-th of the embedded files, where it is a role's recipe. */
static bool role_recipe(size_t i, char *role, size_t size)
{
    const char *file;

    return role_file(tiles_embedded[i].path, role, size, &file) && !strcmp(file, ROLE_RECIPE);
}

static int stage_role_recipes(const char *folder, struct vt_error *err)
{
    char role[ROLE_NAME_MAX], path[VT_PATH_MAX], recipes[VT_PATH_MAX];
    int r = join(recipes, sizeof recipes, folder, "recipes", err);

    if (r == 0)
        r = make_folder(recipes, err);
    for (size_t i = 0; r == 0 && i < tiles_embedded_count; i++) {
        const struct tiles_embedded_file *e = &tiles_embedded[i];

        if (!role_recipe(i, role, sizeof role))
            continue;
        r = join(path, sizeof path, recipes, role, err);
        if (r == 0)
            r = image_file_write(path, e->data, (size_t)(e->end - e->data), 0644, err);
    }
    return r;
}

static void packages_key(const struct image_work *work, struct image_digest *digest)
{
    const struct vt_buf *versions = &work->resolution.versions;
    const char *line = versions->data ? versions->data : "";
    char role[ROLE_NAME_MAX];

    for (size_t i = 0; i < work->resolution.wanted.count; i++)
        image_digest_add_text(digest, "package", work->resolution.wanted.names[i]);
    /* A new kernel leaves this part as it is. */
    while (*line) {
        size_t len = strcspn(line, "\n");

        if (strncmp(line, "linux-image-", 12) != 0)
            image_digest_add(digest, "version", line, len);
        line += len + (line[len] == '\n');
    }
    image_digest_add_text(digest, "recipe", image_recipe("packages.sh"));
    for (size_t i = 0; i < tiles_embedded_count; i++)
        if (role_recipe(i, role, sizeof role)) {
            image_digest_add_text(digest, "role", role);
            image_digest_add_text(digest, "role's recipe", tiles_embedded[i].data);
        }
}

static int packages_make(const struct image_work *work, const char *folder, struct vt_error *err)
{
    const struct image_resolution *res = &work->resolution;
    const char *args[IMAGE_PACKAGES_MAX + 4];
    char log[VT_PATH_MAX];
    struct statvfs room;
    size_t n = 0;
    int r;

    if (statvfs(folder, &room) == 0 && (uint64_t)room.f_bavail * room.f_frsize < ROOM_BYTES)
        return vt_error_set(err, VT_KIND_CONFIG, -ENOSPC,
                            "%s has less than 1 GiB free (VTILE_CACHE chooses another place)",
                            work->cache.folder);
    r = join(log, sizeof log, work->cache.folder, "packages.log", err);
    if (r == 0)
        r = stage_role_recipes(folder, err);
    if (r < 0)
        return r;
    args[n++] = folder;
    args[n++] = res->folder;
    args[n++] = res->suite;
    args[n++] = log;
    for (size_t i = 0; i < res->wanted.count; i++)
        args[n++] = res->wanted.names[i];
    r = image_recipe_run("packages.sh", args, n, true, NULL, err);
    return r < 0 ? vt_error_wrap(err, "%s has it all", log) : 0;
}

/* Initramfs. */

static void initrd_key(const struct image_work *work, struct image_digest *digest)
{
    image_digest_add_text(digest, "kernel", work->keys[IMAGE_KERNEL]);
    image_digest_add_file(digest, "init", work->init);
}

static int initrd_make(const struct image_work *work, const char *folder, struct vt_error *err)
{
    char modules[VT_PATH_MAX], path[VT_PATH_MAX];
    int r =
        image_cache_path(&work->cache, "kernel", work->keys[IMAGE_KERNEL], "modules", modules, err);

    if (r == 0)
        r = join(path, sizeof path, folder, "initrd", err);
    return r < 0 ? r : image_initrd_write(path, work->init, modules, err);
}

/* Roles. */

static void roles_key(const struct image_work *work, struct image_digest *digest)
{
    char role[ROLE_NAME_MAX];
    const char *file;

    image_digest_add_file(digest, "agent", work->agent);
    for (size_t i = 0; i < tiles_embedded_count; i++)
        if (role_file(tiles_embedded[i].path, role, sizeof role, &file)) {
            image_digest_add_text(digest, "path", tiles_embedded[i].path);
            image_digest_add(digest, "file", tiles_embedded[i].data,
                             (size_t)(tiles_embedded[i].end - tiles_embedded[i].data));
        }
}

static int copy_program(const char *from, const char *to, struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf data = VT_BUF_INIT(PROGRAM_BYTES_MAX);
    int r = vt_file_read(from, VT_KIND_CONFIG, &data, err);

    return r < 0 ? r : image_file_write(to, data.data, data.len, 0755, err);
}

static int stage_role_files(const char *root, struct vt_error *err)
{
    char role[ROLE_NAME_MAX], path[VT_PATH_MAX], relative[VT_PATH_MAX];
    const char *file;
    int r = 0;

    for (size_t i = 0; r == 0 && i < tiles_embedded_count; i++) {
        const struct tiles_embedded_file *e = &tiles_embedded[i];

        if (!role_file(e->path, role, sizeof role, &file))
            continue;
        snprintf(relative, sizeof relative, "%s/%s", &IMAGE_ROLES_DIR[1], role);
        r = join(path, sizeof path, root, relative, err);
        if (r == 0)
            r = make_folder(path, err);
        snprintf(relative, sizeof relative, "%s/%s/%s", &IMAGE_ROLES_DIR[1], role, file);
        if (r == 0)
            r = join(path, sizeof path, root, relative, err);
        if (r == 0)
            r = image_file_write(path, e->data, (size_t)(e->end - e->data), 0644, err);
    }
    return r;
}

static int roles_make(const struct image_work *work, const char *folder, struct vt_error *err)
{
    static const char *const folders[] = {"root",
                                          "root/usr",
                                          "root/usr/bin",
                                          "root/usr/share",
                                          "root/usr/share/vtile",
                                          ("root" IMAGE_ROLES_DIR)};
    char root[VT_PATH_MAX], path[VT_PATH_MAX], image[VT_PATH_MAX];
    /* No times, owners or random UUID: the same content gives the same bytes. */
    const char *const argv[] = {"mkfs.erofs", "-T0", "-U", "00000002-0000-4000-8000-000000000002",
                                "--all-root", image, root, NULL};
    int r = join(root, sizeof root, folder, "root", err);

    for (size_t i = 0; r == 0 && i < VT_COUNT(folders); i++) {
        r = join(path, sizeof path, folder, folders[i], err);
        if (r == 0)
            r = make_folder(path, err);
    }
    if (r == 0)
        r = join(path, sizeof path, folder, "root/usr/bin/vtile-agent", err);
    if (r == 0)
        r = copy_program(work->agent, path, err);
    if (r == 0)
        r = stage_role_files(root, err);
    if (r == 0)
        r = join(image, sizeof image, folder, "roles.erofs", err);
    if (r == 0) {
        r = vt_proc_run(argv, NULL, MKFS_TIMEOUT_NS, err);
        if (r < 0)
            vt_error_wrap(err, "make the roles' file system (package erofs-utils)");
    }
    return r < 0 ? r : image_cache_remove(root, err);
}

const struct image_part_ops image_parts[IMAGE_PARTS] = {
    [IMAGE_KERNEL] = {"kernel", "vmlinux", kernel_key, kernel_make, "fetching the kernel"},
    [IMAGE_PACKAGES] = {"packages", "packages.erofs", packages_key, packages_make,
                        "installing packages (about a minute)"},
    [IMAGE_INITRD] = {"initrd", "initrd", initrd_key, initrd_make, "writing the initramfs"},
    [IMAGE_ROLES] = {"roles", "roles.erofs", roles_key, roles_make, "writing agent and roles"},
};
