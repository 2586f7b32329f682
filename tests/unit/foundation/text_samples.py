"""Answers as public MCP servers and command-line tools write them, and what is to be read out of them."""

from __future__ import annotations

from typing import Any

FILES = """[DIR] docs
[FILE] README.md
[FILE] my notes.txt"""

SIZES = """[FILE] a.txt                               12 B
[DIR] docs
[FILE] b.txt                              3.4 KB

Total: 2 files, 1 directories
Combined size: 3.41 KB"""

FOUND = """/data/projects/app/main.py
/data/projects/app/tests/main.py"""

INFO = """size: 1024
created: Mon Jan 12 2026 10:00:00 GMT+0000 (Coordinated Universal Time)
isDirectory: false
permissions: 644"""

TREE = """[
  {
    "name": "src",
    "type": "directory",
    "children": [
      {"name": "app.py", "type": "file"}
    ]
  }
]"""

LOG = """Commit history:
Commit: '4f1e2d3c4b5a69788796a5b4c3d2e1f001234567'
Author: <git.Actor "Ada <ada@example.org>">
Date: 2026-01-15 10:30:00+00:00
Message: 'Fix login: check the token\\n'

Commit: '0a1b2c3d4e5f60718293a4b5c6d7e8f901234567'
Author: <git.Actor "Grace <grace@example.org>">
Date: 2026-01-14 09:00:00+01:00
Message: 'Initial commit\\n'
"""

STATUS = """Repository status:
On branch main
Changes not staged for commit:
  (use "git add <file>..." to update what will be committed)
\tmodified:   src/app.py
\tmodified:   README.md

Untracked files:
\tnotes.md

no changes added to commit (use "git add" and/or "git commit -a")"""

SHORT_STATUS = """ M src/app.py
A  src/new.py
?? notes.md"""

BRANCHES = """* main
  feature/login
  release-1.2"""

ROWS = """[{'id': 1, 'name': "O'Hara", 'total': 12.5, 'note': None}, {'id': 2, 'name': 'Lee', 'note': 'a "b"'}]"""

TIME = """{
  "timezone": "Asia/Tokyo",
  "datetime": "2026-01-15T19:30:00+09:00",
  "is_dst": false
}"""

PAGE = """Contents of https://example.org/guide:
# Guide

Read the [install page](https://example.org/install "Install") first, then [settings](/settings).

- Fast
- Small, and
  easy to read

| Option | Default |
| --- | --- |
| `port` | 8080 |
| `host` | 127.0.0.1 |

More at https://example.org/faq (see also https://example.net/wiki/Guide_(book))."""

LONG_LISTING = """total 12
-rw-r--r-- 1 ada staff  120 Jan 15 10:30 notes.md
drwxr-xr-x 2 ada staff 4096 Jan 14 09:00 src"""

MATCHES = """src/app.py:12:def login(user):
src/app.py:40:    return login(user)
tests/test_app.py:3:from app import login"""

CONTAINERS = """\
CONTAINER ID   IMAGE          COMMAND                  CREATED        STATUS                     PORTS     NAMES
0a1b2c3d4e5f   nginx:latest   "/docker-entrypoint.…"   2 hours ago    Up 2 hours                 80/tcp    web
f5e4d3c2b1a0   redis:7        "docker-entrypoint.s…"   3 days ago     Exited (0) 3 minutes ago             cache"""

PODS = """NAME                     READY   STATUS             RESTARTS      AGE
web-7d4b9c6f5-x2x7k      1/1     Running            0             3d2h
worker-5f6d8b7c9-abcde   0/1     CrashLoopBackOff   12 (5m ago)   5h"""

ISSUES = """Found 2 issues:

1. **Login fails on Safari** (#142)
   Labels: bug, urgent
   https://github.com/acme/app/issues/142
2. **Add dark mode** (#138)
   Labels: feature
   https://github.com/acme/app/issues/138"""

EVENT = """Event created successfully!
**Title:** Standup
**ID:** `evt_9f8e7d`
**Start:** 2026-01-16T09:00:00+01:00
**Attendees:** ada@example.org; grace@example.org"""

QUERY = """ id |  name  | email
----+--------+-----------------
  1 | Ada    | ada@example.org
  2 | Grace  |
(2 rows)"""

SHEET = """id,name,note
1,Ada,"likes commas, quotes"
2,Grace,"""

FENCED = """Here are the results:

```json
{"items": [{"id": "a1"}]}
```

Let me know if you need more."""

BOOKING = """✅ Booking confirmed
📅 Date: 2026-01-16
🔑 Reference: BK-77
### Price: 12.50 EUR"""

CHECKS = """✓ unit tests
✗ lint
✓ types"""

EVENTS = """{"id": 1, "level": "info"}
{"id": 2, "level": "error"}
"""

PODS_AS_YAML = """apiVersion: v1
items:
- metadata:
    name: web-0
    labels: {app: web}
  spec:
    # where it runs
    nodeName: node-7
    args: [serve, fast]
    note: |-
      first
      second
- metadata:
    name: 'db-0'
  spec:
    nodeName: "node-9"
    replicas: 2
    paused: false
kind: List
"""

SAMPLES: list[tuple[str, str, Any]] = [
    (PODS_AS_YAML, "yaml", {
        "apiVersion": "v1",
        "items": [
            {"metadata": {"name": "web-0", "labels": "{app: web}"},
             "spec": {"nodeName": "node-7", "args": ["serve", "fast"], "note": "first\nsecond"}},
            {"metadata": {"name": "db-0"}, "spec": {"nodeName": "node-9", "replicas": 2, "paused": False}},
        ],
        "kind": "List"}),
    ("id: 7\nname: x", "yaml", None),
    ("a: 1\na:\n  - 2", "yaml", None),
    ("a:\n  b: &x 1\nc: *x", "yaml", None),
    ("a:\n  b: 1\n c: 2", "yaml", None),
    ("Edited by @ada_l and a@b.example; see @acme/app", "handles", ["ada_l"]),
    ("room R12, floor 3, flight FL204, 2026-01-02, ABC-7", "codes", ["R12", "FL204"]),
    (FILES, "tagged", [{"tag": "DIR", "text": "docs"}, {"tag": "FILE", "text": "README.md"},
                       {"tag": "FILE", "text": "my notes.txt"}]),
    (SIZES, "fields", {"Total": "2 files, 1 directories", "Combined size": "3.41 KB"}),
    (SIZES, "paths", ["a.txt", "b.txt"]),
    (FOUND, "lines", ["/data/projects/app/main.py", "/data/projects/app/tests/main.py"]),
    (FOUND, "paths", ["/data/projects/app/main.py", "/data/projects/app/tests/main.py"]),
    (INFO, "fields", {"size": "1024", "created": "Mon Jan 12 2026 10:00:00 GMT+0000 (Coordinated Universal Time)",
                      "isDirectory": "false", "permissions": "644"}),
    (TREE, "json", [{"name": "src", "type": "directory", "children": [{"name": "app.py", "type": "file"}]}]),
    (LOG, "records", [
        {"Commit": "4f1e2d3c4b5a69788796a5b4c3d2e1f001234567", "Author": '<git.Actor "Ada <ada@example.org>">',
         "Date": "2026-01-15 10:30:00+00:00", "Message": "Fix login: check the token\\n"},
        {"Commit": "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567", "Author": '<git.Actor "Grace <grace@example.org>">',
         "Date": "2026-01-14 09:00:00+01:00", "Message": "Initial commit\\n"},
    ]),
    (LOG, "hexes", ["4f1e2d3c4b5a69788796a5b4c3d2e1f001234567", "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567"]),
    (LOG, "emails", ["ada@example.org", "grace@example.org"]),
    (LOG, "dates", ["2026-01-15", "2026-01-14"]),
    (LOG, "times", ["10:30:00", "09:00:00"]),
    (LOG.partition("\n\n")[0], "records", [
        {"Commit": "4f1e2d3c4b5a69788796a5b4c3d2e1f001234567", "Author": '<git.Actor "Ada <ada@example.org>">',
         "Date": "2026-01-15 10:30:00+00:00", "Message": "Fix login: check the token\\n"},
    ]),
    (STATUS, "paths", ["src/app.py", "README.md", "notes.md", "and/or"]),
    (SHORT_STATUS, "tagged", [{"tag": "M", "text": "src/app.py"}, {"tag": "A", "text": "src/new.py"},
                              {"tag": "??", "text": "notes.md"}]),
    (BRANCHES, "tagged", [{"tag": "*", "text": "main"}, {"tag": "", "text": "feature/login"},
                          {"tag": "", "text": "release-1.2"}]),
    (ROWS, "repr", [{"id": 1, "name": "O'Hara", "total": 12.5, "note": None},
                    {"id": 2, "name": "Lee", "note": 'a "b"'}]),
    (TIME, "json", {"timezone": "Asia/Tokyo", "datetime": "2026-01-15T19:30:00+09:00", "is_dst": False}),
    (TIME, "times", ["19:30:00"]),
    (PAGE, "links", [
        {"text": "", "url": "https://example.org/guide"},
        {"text": "install page", "url": "https://example.org/install"},
        {"text": "settings", "url": "/settings"},
        {"text": "", "url": "https://example.org/faq"},
        {"text": "", "url": "https://example.net/wiki/Guide_(book)"},
    ]),
    (PAGE, "bullets", ["Fast", "Small, and easy to read"]),
    (PAGE, "table", [{"Option": "port", "Default": "8080"}, {"Option": "host", "Default": "127.0.0.1"}]),
    (LONG_LISTING, "times", ["10:30", "09:00"]),
    (LONG_LISTING, "paths", ["notes.md"]),
    (LONG_LISTING, "table", None),
    (MATCHES, "paths", ["src/app.py", "tests/test_app.py"]),
    (MATCHES, "numbers", ["12", "40", "3"]),
    (CONTAINERS, "table", [
        {"CONTAINER ID": "0a1b2c3d4e5f", "IMAGE": "nginx:latest", "COMMAND": '"/docker-entrypoint.…"',
         "CREATED": "2 hours ago", "STATUS": "Up 2 hours", "PORTS": "80/tcp", "NAMES": "web"},
        {"CONTAINER ID": "f5e4d3c2b1a0", "IMAGE": "redis:7", "COMMAND": '"docker-entrypoint.s…"',
         "CREATED": "3 days ago", "STATUS": "Exited (0) 3 minutes ago", "PORTS": "", "NAMES": "cache"},
    ]),
    (PODS, "table", [
        {"NAME": "web-7d4b9c6f5-x2x7k", "READY": "1/1", "STATUS": "Running", "RESTARTS": "0", "AGE": "3d2h"},
        {"NAME": "worker-5f6d8b7c9-abcde", "READY": "0/1", "STATUS": "CrashLoopBackOff", "RESTARTS": "12 (5m ago)",
         "AGE": "5h"},
    ]),
    (ISSUES, "ids", ["#142", "#138"]),
    (ISSUES, "urls", ["https://github.com/acme/app/issues/142", "https://github.com/acme/app/issues/138"]),
    (ISSUES, "bullets", [
        "**Login fails on Safari** (#142) Labels: bug, urgent https://github.com/acme/app/issues/142",
        "**Add dark mode** (#138) Labels: feature https://github.com/acme/app/issues/138",
    ]),
    (ISSUES, "list", ["bug", "urgent"]),
    (EVENT, "fields", {"Title": "Standup", "ID": "evt_9f8e7d", "Start": "2026-01-16T09:00:00+01:00",
                       "Attendees": "ada@example.org; grace@example.org"}),
    (EVENT, "list", ["ada@example.org", "grace@example.org"]),
    (EVENT, "ids", ["evt_9f8e7d"]),
    (QUERY, "table",
     [{"id": "1", "name": "Ada", "email": "ada@example.org"}, {"id": "2", "name": "Grace", "email": ""}]),
    (SHEET, "table",
     [{"id": "1", "name": "Ada", "note": "likes commas, quotes"}, {"id": "2", "name": "Grace", "note": ""}]),
    (FENCED, "json", {"items": [{"id": "a1"}]}),
    (BOOKING, "fields", {"Date": "2026-01-16", "Reference": "BK-77", "Price": "12.50 EUR"}),
    (CHECKS, "tagged",
     [{"tag": "✓", "text": "unit tests"}, {"tag": "✗", "text": "lint"}, {"tag": "✓", "text": "types"}]),
    (EVENTS, "json", [{"id": 1, "level": "info"}, {"id": 2, "level": "error"}]),
]  # fmt: skip
TEXTS = list(dict.fromkeys(text for text, _, _ in SAMPLES))
