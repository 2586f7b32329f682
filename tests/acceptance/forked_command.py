"""Stands for the installed command where another program starts it: `forked_command.py ADDRESS ARGUMENT…`.

Hands its files, folder and environment to the fork server at ADDRESS, passes signals on and ends as the command ends.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys


def main() -> int:
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    channel.connect(sys.argv[1])
    message = {"id": 1, "arguments": sys.argv[2:], "cwd": os.getcwd(), "env": dict(os.environ)}  # noqa: PTH109
    socket.send_fds(channel, [json.dumps(message).encode()], [0, 1, 2])
    pid: int = json.loads(channel.recv(1 << 16))["pid"]
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda given, _: os.kill(pid, given))
    # Whoever reads what the command writes shall see its end, and not wait for this process, too.
    os.closerange(0, 3)
    code: int = json.loads(channel.recv(1 << 16))["code"]
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main())
