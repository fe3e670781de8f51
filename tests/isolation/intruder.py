"""A grader that tries to get out. Reward 0: it was held; 1: it got somewhere; what it saw is printed."""

import ctypes
import errno
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

from paddock import SingleGraderResult, single_grader

libc = ctypes.CDLL(None, use_errno=True)

# x86_64 and aarch64.
CALLS = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    "add_key": (248, 217),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "open_by_handle_at": (304, 265),
    "kexec_load": (246, 104),
    "init_module": (175, 105),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "sethostname": (170, 161),
    "settimeofday": (164, 170),
    "fsopen": (430, 430),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "clone3": (435, 435),
}
REFUSED = {errno.EPERM, errno.ENOSYS}


@single_grader
def attempt(context, sample, trajectory):
    extra = sample.extra
    got = globals()["try_" + extra["try"]](extra)
    print(extra["try"], "got:", got, flush=True)
    return SingleGraderResult(reward=1.0 if got else 0.0)


def try_read(extra):
    got = []
    for path in extra["paths"]:
        try:
            found = os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(100)
        except OSError as error:
            print(path, "->", error)
            continue
        if found:
            got.append((path, found))
    return got


def try_write(extra):
    got = []
    for path in extra["paths"]:
        try:
            with open(path, "w") as file:
                file.write("x")
            got.append(path)
        except OSError as error:
            print(path, "->", error)
    return got


def try_system_calls(extra):
    column = {"x86_64": 0, "aarch64": 1}[os.uname().machine]
    got = []
    for name, numbers in CALLS.items():
        ctypes.set_errno(0)
        told = libc.syscall(numbers[column], 0, 0, 0, 0, 0, 0)
        if told != -1 or ctypes.get_errno() not in REFUSED:
            got.append((name, told, ctypes.get_errno()))
    return got


def try_namespaces_by_clone(extra):
    """CLONE_NEWUSER through the old call."""
    number = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
    ctypes.set_errno(0)
    told = libc.syscall(number, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
    if told == 0:
        os._exit(0)
    return told != -1 or ctypes.get_errno() != errno.EPERM


def try_privileges(extra):
    status = dict(line.split(":\t", 1) for line in open("/proc/self/status") if ":\t" in line)
    wanted = {"CapEff": "0" * 16, "CapPrm": "0" * 16, "CapInh": "0" * 16, "CapAmb": "0" * 16}
    wanted |= {"NoNewPrivs": "1", "Seccomp": "2"}
    return {key: status[key] for key in wanted if status[key].strip() != wanted[key]}


def try_setuid_program(extra):
    """A program that would give privileges gives none."""
    got = subprocess.run(["su", "-c", "id -u"], stdin=subprocess.DEVNULL, capture_output=True)
    return got.returncode == 0 and os.getuid() != 0


def try_host_processes(extra):
    got = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            line = open(f"/proc/{name}/cmdline", "rb").read()
            if extra["mark"].encode() in line:
                got.append((name, line))
    return got


def try_signal(extra):
    """Ends whoever it can: the reaper, every process but its own family."""
    got = []
    for pid in (1, os.getppid()):
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError as error:
            print(pid, "->", error)
    if os.path.exists("/proc/1/stat") and os.getppid() == 1:
        state = open("/proc/1/stat").read().rsplit(")", 1)[1].split()[0]
        if state in "ZXT":
            got.append(state)
    return got


def try_memory_of_reaper(extra):
    got = []
    for name in ("mem", "environ", "maps"):
        try:
            open(f"/proc/1/{name}", "rb").read(1)
            got.append(name)
        except OSError as error:
            print(name, "->", error)
    return got if os.getppid() == 1 else []


def try_environment(extra):
    return [key for key in os.environ if key.startswith(("PADDOCK", "CARGO", "RUST"))]


def try_descriptors(extra):
    """Nothing is open but sockets, pipes and what holds nothing."""
    got = []
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink("/proc/self/fd/" + name)
        except OSError:
            continue
        harmless = ("socket:", "pipe:", "/dev/null", "/dev/urandom", "anon_inode:", "/proc/")
        if not target.startswith(harmless):
            got.append((name, target))
    return got


def try_abstract_socket(extra):
    """Sockets without a file are behind no mount."""
    with socket.socket(socket.AF_UNIX) as peer:
        try:
            peer.connect("\0" + extra["name"])
            return True
        except OSError as error:
            print(error)
            return False


def try_connect(extra):
    """Bytes to a port of loopback, and an answer."""
    try:
        with socket.create_connection(("127.0.0.1", extra["port"]), timeout=5) as peer:
            peer.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            return b"page" in _all(peer)
    except OSError as error:
        print(error)
        return False


def try_fetch(extra):
    """A page, with no proxy between."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return _page(opener, extra["port"])


def try_fetch_by_proxy(extra):
    """A page, by the proxy that the environment names."""
    os.environ.pop("NO_PROXY", None)
    os.environ.pop("no_proxy", None)
    return _page(urllib.request.build_opener(), extra["port"])


def try_tunnel(extra):
    """Bytes through a tunnel of the proxy."""
    host, _, port = os.environ["HTTPS_PROXY"].removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=5) as peer:
        peer.sendall(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % extra["port"])
        told = peer.recv(1000)
        print(told)
        if not told.startswith(b"HTTP/1.1 200"):
            return False
        peer.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        return b"page" in _all(peer)


def try_interfaces(extra):
    """Any interface but loopback."""
    return [name for _, name in socket.if_nameindex() if name != "lo"]


def _all(peer):
    told = b""
    while more := peer.recv(1000):
        told += more
    return told


def _page(opener, port):
    try:
        with opener.open(f"http://127.0.0.1:{port}/", timeout=5) as page:
            return page.read() == b"page"
    except urllib.error.HTTPError as error:
        print(error, error.read())
    except OSError as error:
        print(error)
    return False


def try_fill(extra):
    """More than it may write, in each place."""
    got = []
    for folder in (".", "/tmp", "/dev/shm"):
        path = os.path.join(folder, "filler")
        written = 0
        try:
            with open(path, "wb", buffering=0) as file:
                while written < extra["space"] * 2:
                    written += file.write(bytes(1 << 20))
            got.append((folder, written))
        except OSError as error:
            print(folder, written, error)
            if error.errno != errno.ENOSPC:
                got.append((folder, error))
        finally:
            os.remove(path)
    return got


def try_innocence(extra):
    """What honest plugins do, and must be able to: 0 if all of it works."""
    import multiprocessing
    import tempfile
    import threading

    failed = []
    with open("own.txt", "w") as file:
        file.write("x")
    open("acts.txt", "a").write("more")
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"x")
    thread = threading.Thread(target=print)
    thread.start()
    thread.join()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        if pool.map(abs, [-1, -2]) != [1, 2]:
            failed.append("pool")
    if subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True).stdout != b"1\n":
        failed.append("subprocess")
    if subprocess.run("echo $((1+1))", shell=True, capture_output=True).stdout != b"2\n":
        failed.append("shell")
    import getpass
    import pwd

    if pwd.getpwuid(os.getuid()).pw_name != getpass.getuser():
        failed.append("user")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        with socket.create_connection(listener.getsockname(), timeout=5):
            pass
    os.sched_getaffinity(0)
    open("/proc/cpuinfo").read()
    open("/dev/urandom", "rb").read(4)
    return failed
