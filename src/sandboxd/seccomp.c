#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sandboxd/seccomp.h"

#define FILTER_MAX 65536

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

/* Refused with EPERM: what reaches for the kernel, other processes, or a way
 * out. Names that this libseccomp does not know are passed over. */
static const char *const refused[] = {
	/* namespaces and mounts */
	"unshare",
	"setns",
	"mount",
	"umount",
	"umount2",
	"pivot_root",
	"chroot",
	"fsopen",
	"fsconfig",
	"fsmount",
	"fspick",
	"move_mount",
	"open_tree",
	"mount_setattr",
	"open_tree_attr",
	"listmount",
	"statmount",
	/* other processes */
	"ptrace",
	"process_vm_readv",
	"process_vm_writev",
	"process_madvise",
	"kcmp",
	"pidfd_getfd",
	"process_mrelease",
	/* big attack surface that no program of the kind needs */
	"bpf",
	"perf_event_open",
	"userfaultfd",
	"io_uring_setup",
	"io_uring_enter",
	"io_uring_register",
	"keyctl",
	"add_key",
	"request_key",
	"lookup_dcookie",
	"fanotify_init",
	"fanotify_mark",
	"inotify_init",
	"inotify_init1",
	"inotify_add_watch",
	"name_to_handle_at",
	"open_by_handle_at",
	"quotactl",
	"quotactl_fd",
	"personality",
	"modify_ldt",
	"vmsplice",
	"remap_file_pages",
	"mbind",
	"set_mempolicy",
	"set_mempolicy_home_node",
	"migrate_pages",
	"move_pages",
	"mq_open",
	"mq_unlink",
	"lsm_set_self_attr",
	"landlock_create_ruleset",
	"memfd_secret",
	/* the machine */
	"kexec_load",
	"kexec_file_load",
	"init_module",
	"finit_module",
	"delete_module",
	"create_module",
	"reboot",
	"swapon",
	"swapoff",
	"acct",
	"syslog",
	"settimeofday",
	"clock_settime",
	"clock_adjtime",
	"adjtimex",
	"stime",
	"sethostname",
	"setdomainname",
	"iopl",
	"ioperm",
	"vhangup",
	"nfsservctl",
	"uselib",
	"ustat",
	"sysfs",
	"_sysctl",
	"afs_syscall",
};

/* Memory outside every rlimit, bounded only by a cgroup. */
static const char *const unbounded[] = { "memfd_create", "shmget", "msgget",
	"semget" };

static const int families[] = { AF_UNIX, AF_INET, AF_INET6 };

static int
refuse_all(scmp_filter_ctx ctx, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int nr = seccomp_syscall_resolve_name(names[i]);
		int rc;

		if (nr == __NR_SCMP_ERROR || nr < 0)
			continue;
		rc = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), nr, 0);
		if (rc != 0)
			return rc;
	}
	return 0;
}

/* Refuses a call when one of its arguments compares so. The macros of
 * libseccomp leave fields out, which clang warns about. */
static int
refuse_when(scmp_filter_ctx ctx, int error, int call, struct scmp_arg_cmp cmp)
{
	return seccomp_rule_add_array(
	    ctx, SCMP_ACT_ERRNO((uint32_t)error), call, 1, &cmp);
}

static struct scmp_arg_cmp
has_bits(unsigned arg, uint64_t mask, uint64_t bits)
{
	return (struct scmp_arg_cmp){ arg, SCMP_CMP_MASKED_EQ, mask, bits };
}

static struct scmp_arg_cmp
is(unsigned arg, enum scmp_compare op, uint64_t value)
{
	return (struct scmp_arg_cmp){ arg, op, value, 0 };
}

/* Threads and fork stay; new namespaces, and children of another's parent
 * (they would be strangers to whoever waits there), do not. clone3 hides its
 * flags in memory, so libc is told that it does not exist. */
static int
refuse_clones(scmp_filter_ctx ctx)
{
	static const unsigned long flags[] = { CLONE_NEWUSER, CLONE_NEWNS,
		CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWIPC, CLONE_NEWUTS,
		CLONE_NEWCGROUP, CLONE_PARENT };
	int rc;

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		rc = refuse_when(ctx, EPERM, SCMP_SYS(clone),
		    has_bits(0, flags[i], flags[i]));
		if (rc != 0)
			return rc;
	}
	return seccomp_rule_add(
	    ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
}

/* Everything but Unix and internet sockets: a network namespace does not bind
 * vsock, and netlink, packet, alg and the like are only attack surface. */
static int
refuse_families(scmp_filter_ctx ctx)
{
	int last = -1, rc = 0;

	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
		for (int f = last + 1; f < families[i] && rc == 0; f++)
			rc = refuse_when(ctx, EAFNOSUPPORT, SCMP_SYS(socket),
			    is(0, SCMP_CMP_EQ, (uint64_t)f));
		last = families[i];
	}
	if (rc != 0)
		return rc;
	/* 64 bits are compared: what has any above the 32 is refused too */
	return refuse_when(ctx, EAFNOSUPPORT, SCMP_SYS(socket),
	    is(0, SCMP_CMP_GT, (uint64_t)last));
}

/* Typing into a terminal. The kernel looks at 32 bits of the request only. */
static int
refuse_ioctls(scmp_filter_ctx ctx)
{
	static const unsigned requests[] = { TIOCSTI, TIOCLINUX };
	int rc = 0;

	for (size_t i = 0; i < 2 && rc == 0; i++)
		rc = refuse_when(ctx, EPERM, SCMP_SYS(ioctl),
		    has_bits(1, 0xffffffffu, requests[i]));
	return rc;
}

static int
add_rules(scmp_filter_ctx ctx, bool bounded_memory)
{
	int rc;

	/* calls of another architecture would pass by every number above */
	if ((rc = seccomp_attr_set(
		 ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS)) != 0 ||
	    (rc = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_NNP, 1)) != 0 ||
	    (rc = refuse_all(
		 ctx, refused, sizeof(refused) / sizeof(refused[0]))) != 0 ||
	    (rc = refuse_clones(ctx)) != 0 ||
	    (rc = refuse_families(ctx)) != 0 || (rc = refuse_ioctls(ctx)) != 0)
		return rc;
	if (bounded_memory)
		return 0;
	return refuse_all(
	    ctx, unbounded, sizeof(unbounded) / sizeof(unbounded[0]));
}

/* libseccomp writes to a descriptor only. */
static enum err export(
    scmp_filter_ctx ctx, unsigned char **ret_filter, size_t *ret_len) {
	CLEANUP_FD int fd = memfd_create("filter", MFD_CLOEXEC);
	CLEANUP_FREE unsigned char *filter = malloc(FILTER_MAX);
	ssize_t n;

	if (filter == NULL) return ERR_NOMEM;
	if (fd < 0 || seccomp_export_bpf(ctx, fd) != 0) return ERR_SYS;
	n = pread(fd, filter, FILTER_MAX, 0);
	if (n <= 0 || n == FILTER_MAX) return ERR_SYS;
	*ret_filter = STEAL_PTR(filter);
	*ret_len = (size_t)n;
	return ERR_OK;
}

enum err
filter_make(bool bounded_memory, unsigned char **ret_filter, size_t *ret_len)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
	enum err rc;
	int failed;

	if (ctx == NULL)
		return ERR_NOMEM;
	if ((failed = add_rules(ctx, bounded_memory)) != 0) {
		errno = -failed;
		rc = ERR_SYS;
	} else {
		rc = export(ctx, ret_filter, ret_len);
	}
	seccomp_release(ctx);
	return rc;
}
