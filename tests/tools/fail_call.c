// SPDX-License-Identifier: Apache-2.0
/* Preloaded into the command by faults.cpp: makes its n-th system call fail.
 *
 * SOFTFOLD_TEST_CALL    n, counted from 1 over all functions below
 * SOFTFOLD_TEST_ERRNO   errno of the failure; 0: a read or write of half of the bytes instead
 * SOFTFOLD_TEST_ONLY    if it is set: only calls of that function count
 * SOFTFOLD_TEST_HIT     a file that gets the function's name when the n-th call is made
 *
 * What cannot be undone when it fails (unlink) and what only advises (madvise) is left out. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

struct statvfs;

static int number_of(const char* variable) {
  const char* text = getenv(variable);
  return text == NULL ? 0 : atoi(text);
}

/* Whether this call is the one. */
static int is_hit(const char* function) {
  static atomic_int calls;
  const char* only = getenv("SOFTFOLD_TEST_ONLY");
  const char* path = getenv("SOFTFOLD_TEST_HIT");
  long file;
  if (path == NULL || (only != NULL && strcmp(only, function) != 0) ||
      atomic_fetch_add(&calls, 1) + 1 != number_of("SOFTFOLD_TEST_CALL")) {
    return 0;
  }
  file = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  syscall(SYS_write, file, function, strlen(function));
  syscall(SYS_close, file);
  errno = number_of("SOFTFOLD_TEST_ERRNO");
  return 1;
}

#define REAL(function, pointer) *(void**)(&(pointer)) = dlsym(RTLD_NEXT, #function)

/* A function that fails, after its work or instead of it, and returns `failed`. */
#define FAILING(type, failed, function, parameters, arguments) \
  type function parameters;                                    \
  type function parameters {                                   \
    type(*real) parameters;                                    \
    REAL(function, real);                                      \
    if (is_hit(#function) && errno != 0) return failed;        \
    return real arguments;                                     \
  }

FAILING(int, -1, fstat, (int file, struct stat* status), (file, status))
FAILING(int, -1, stat, (const char* path, struct stat* status), (path, status))
FAILING(int, -1, lstat, (const char* path, struct stat* status), (path, status))
FAILING(int, -1, statvfs, (const char* path, struct statvfs* status), (path, status))
FAILING(int, -1, access, (const char* path, int mode), (path, mode))
FAILING(char*, NULL, realpath, (const char* path, char* resolved), (path, resolved))
FAILING(ssize_t, -1, readlink, (const char* path, char* to, size_t size), (path, to, size))
FAILING(void*, (void*)-1, mmap,
        (void* at, size_t size, int protection, int flags, int file, off_t offset),
        (at, size, protection, flags, file, offset))
FAILING(off_t, -1, lseek, (int file, off_t offset, int whence), (file, offset, whence))
FAILING(int, -1, fchmod, (int file, mode_t mode), (file, mode))
FAILING(int, -1, fsync, (int file), (file))
FAILING(int, -1, rename, (const char* from, const char* to), (from, to))
FAILING(int, -1, renameat2,
        (int from_directory, const char* from, int to_directory, const char* to, unsigned flags),
        (from_directory, from, to_directory, to, flags))

/* A file is closed even if that reports an error. */
int close(int file) {
  int (*real)(int);
  int hit = is_hit("close");
  int code = errno;
  int result;
  REAL(close, real);
  result = real(file);
  if (!hit || code == 0) return result;
  errno = code;
  return -1;
}

static size_t half(size_t size) { return size > 1 ? size / 2 : size; }

ssize_t read(int file, void* to, size_t size) {
  ssize_t (*real)(int, void*, size_t);
  REAL(read, real);
  if (is_hit("read")) {
    if (errno != 0) return -1;
    size = half(size);
  }
  return real(file, to, size);
}

ssize_t write(int file, const void* from, size_t size) {
  ssize_t (*real)(int, const void*, size_t);
  REAL(write, real);
  if (is_hit("write")) {
    if (errno != 0) return -1;
    size = half(size);
  }
  return real(file, from, size);
}

static int open_as(const char* function, int (*real)(const char*, int, ...), const char* path,
                   int flags, mode_t mode) {
  if (is_hit(function) && errno != 0) return -1;
  return real(path, flags, mode);
}

int open(const char* path, int flags, ...) {
  int (*real)(const char*, int, ...);
  va_list more;
  mode_t mode;
  va_start(more, flags);
  mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  REAL(open, real);
  return open_as("open", real, path, flags, mode);
}
