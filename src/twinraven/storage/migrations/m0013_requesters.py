"""Adds the requester of an approval, as the actor that the audit chain names.

`requested_by` is the user whose rights a call has, which is "local" for everybody at the machine without a key. Whether
the one who decides is the one who asked can only be told from the actor. Requests from before have none.
"""

from __future__ import annotations

from twinraven.storage.migrations import Ddl


def upgrade(ddl: Ddl) -> None:
    ddl.run("ALTER TABLE approvals ADD COLUMN requested_actor TEXT")
