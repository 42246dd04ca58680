"""The statements that write: each a transition whole in itself, which looks and changes under the same row locks.

In PostgreSQL a statement that had to wait for a row sees that row as it is then, but everything else as it was when the
statement began. So what decides stands in the row that is changed, and what must be counted does too: the positions of
a conversation, the bytes of a container, the epoch of a hold. Whatever else has to be so is a constraint, whose
violation undoes the statement as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from belljar.gateway.store.base import Kept
from belljar.gateway.store.postgres.group_commit import Write
from belljar.gateway.store.rows import CONTAINERS, FILES, KEYS, RESPONSES, Table

NOW = "clock_timestamp()"
UNFINISHED = "status IN ('queued', 'in_progress')"
DEAD = f"""
    (holder IS NULL OR NOT EXISTS (SELECT 1 FROM belljar.gateways AS g WHERE g.id = holder AND g.until > {NOW}))
"""
"""The gateway that has the row lives no more."""


def select(table: Table[Any]) -> str:
    return f"SELECT {table.columns} FROM belljar.{table.name}"


def is_unused(name: str) -> str:
    """That no record names a blob or a part of it."""
    return f"""
        NOT EXISTS (SELECT 1 FROM belljar.files WHERE blob_whole = {name})
        AND NOT EXISTS (SELECT 1 FROM belljar.container_files WHERE blob_whole = {name})
    """


def _insert(table: Table[Any]) -> str:
    marks = ", ".join(f"${n}" for n in range(1, table.columns.count(",") + 2))
    return f"INSERT INTO belljar.{table.name} ({table.columns}) VALUES ({marks})"


def _counted(name: str, statement: str) -> str:
    """How many rows it changed, as a row."""
    return f"WITH {name} AS ({statement} RETURNING 1) SELECT count(*) FROM {name}"


def _append(to: str, ids: str, bodies: str) -> str:
    """Items at the end of the conversation whose id `to` gives, behind `WITH …,`: no row in it, no items."""
    return f"""
        placed AS (
            UPDATE belljar.conversations SET positions = positions + cardinality({ids}::text[])
            WHERE id = ({to}) RETURNING positions - cardinality({ids}::text[]) AS before
        ), put AS (
            INSERT INTO belljar.items (conversation_id, id, position, body)
            SELECT whole.id, one.id, coalesce((SELECT before FROM placed), 0) + one.nth, one.body
            FROM ({to}) AS whole (id),
                unnest({ids}::text[], {bodies}::bytea[]) WITH ORDINALITY AS one (id, body, nth)
        )
    """


# Gateways

BEAT = Write(
    f"""
    WITH clock AS MATERIALIZED (SELECT {NOW} AS now), beaten AS (
        INSERT INTO belljar.gateways AS g (id, address, version, until)
        SELECT $1, $2, $3, now + make_interval(secs => $4) FROM clock
        ON CONFLICT (id) DO UPDATE SET address = excluded.address, version = excluded.version, until = excluded.until
            WHERE g.until > (SELECT now FROM clock)
        RETURNING 1
    ) SELECT CASE WHEN EXISTS (SELECT 1 FROM beaten) THEN extract(epoch FROM now)::float8 END FROM clock
    """,
    timeout=3.0,
    urgent=True,
)
LEAVE = Write(
    """
    WITH gone AS (DELETE FROM belljar.gateways WHERE id = $1)
    UPDATE belljar.containers SET holder = NULL WHERE holder = $1
    """,
    silent=True,
    together=1,
)

# Responses

ADD_RESPONSE = Write(f"{_insert(RESPONSES)} ON CONFLICT (id) DO NOTHING", silent=True)
ADD_RESPONSE_WITH_ITEMS = Write(
    f"""
    WITH added AS ({_insert(RESPONSES)} ON CONFLICT (id) DO NOTHING RETURNING conversation_id),
    {_append("SELECT conversation_id FROM added", "$14", "$15")}
    SELECT 1
    """
)


def _end(whose: str) -> Write:
    return Write(
        f"""
        WITH ended AS (
            UPDATE belljar.responses SET
                status = $2, container_id = $3, container_version = $4, input = $5, output = $6, body = $7, holder = $8
            WHERE id = $1 AND {UNFINISHED} AND {whose} RETURNING id
        ), told AS (
            INSERT INTO belljar.events (response_id, sequence, body)
            SELECT ended.id, one.sequence, one.body
            FROM ended, unnest($9::bigint[], $10::bytea[]) AS one (sequence, body)
        ), {_append("SELECT $11::text FROM ended WHERE cardinality($12::text[]) > 0", "$12", "$13")}
        SELECT count(*) FROM ended
        """
    )


END_RESPONSE = _end("holder IS NOT DISTINCT FROM $8")
END_ABANDONED = _end(DEAD)
DELETE_RESPONSE = Write(_counted("gone", "DELETE FROM belljar.responses WHERE id = $1 AND owner = $2"))
ADD_EVENTS = Write(
    """
    WITH found AS (SELECT id, holder FROM belljar.responses WHERE id = $1 FOR SHARE), told AS (
        INSERT INTO belljar.events (response_id, sequence, body)
        SELECT found.id, one.sequence, one.body
        FROM found, unnest($3::bigint[], $4::bytea[]) AS one (sequence, body)
        WHERE found.holder = $2
        ON CONFLICT DO NOTHING
    ) SELECT (SELECT count(*) FROM found), (SELECT count(*) FROM found WHERE holder = $2)
    """
)

# Conversations

CREATE_CONVERSATION = Write(
    """
    WITH added AS (
        INSERT INTO belljar.conversations (id, owner, created_at, metadata, positions)
        VALUES ($1, $2, $3, $4, cardinality($5::text[])) ON CONFLICT (id) DO NOTHING RETURNING id
    )
    INSERT INTO belljar.items (conversation_id, id, position, body)
    SELECT added.id, one.id, one.nth, one.body
    FROM added, unnest($5::text[], $6::bytea[]) WITH ORDINALITY AS one (id, body, nth)
    """,
    silent=True,
)
UPDATE_CONVERSATION = Write(
    _counted("changed", "UPDATE belljar.conversations SET metadata = $3 WHERE id = $1 AND owner = $2")
)
DELETE_CONVERSATION = Write(_counted("gone", "DELETE FROM belljar.conversations WHERE id = $1 AND owner = $2"))
ADD_ITEMS = Write(f"""WITH {_append("SELECT $1::text", "$2", "$3")} SELECT 1""")
DELETE_ITEM = Write(_counted("gone", "DELETE FROM belljar.items WHERE conversation_id = $1 AND id = $2"))

# Containers

CREATE_CONTAINER = Write(f"{_insert(CONTAINERS)} ON CONFLICT (id) DO NOTHING", silent=True)
DELETE_CONTAINER = Write(
    """
    WITH gone AS (DELETE FROM belljar.containers WHERE id = $1 AND owner = $2 RETURNING owner, bytes), freed AS (
        UPDATE belljar.usage SET bytes = greatest(usage.bytes - gone.bytes, 0) FROM gone WHERE usage.owner = gone.owner
    ) SELECT count(*) FROM gone
    """,
    together=1,
)
_UPDATE = "UPDATE belljar.containers SET memory = coalesce($2, memory), hosted = coalesce($3, hosted) WHERE id = $1"
UPDATE_CONTAINER = Write(_counted("changed", _UPDATE))
_TOUCH = """
    UPDATE belljar.containers SET last_active_at = greatest(last_active_at, $2), cells = cells + $3,
        touched = coalesce($4, touched)
    WHERE id = $1
"""
_HELD = "holder = ${} AND epoch = ${}"
TOUCH_CONTAINER = Write(_counted("changed", _TOUCH))
UPDATE_HELD = Write(_counted("changed", f"{_UPDATE} AND {_HELD.format(4, 5)}"))
TOUCH_HELD = Write(_counted("changed", f"{_TOUCH} AND {_HELD.format(5, 6)}"))
HOLD_CONTAINER = Write(
    f"""
    WITH held AS (
        UPDATE belljar.containers SET holder = $3, epoch = epoch + 1
        WHERE id = $1 AND owner = $2 AND NOT deleted AND (holder = $3 OR {DEAD})
        RETURNING {CONTAINERS.columns}
    ) SELECT held.* FROM (SELECT 1) AS one LEFT JOIN held ON true
    """
)
NOTE_SANDBOX = Write(
    _counted("changed", f"UPDATE belljar.containers SET sandbox = $2 WHERE id = $1 AND {_HELD.format(3, 4)}")
)
RELEASE_CONTAINER = Write(
    _counted("changed", f"UPDATE belljar.containers SET holder = NULL WHERE id = $1 AND {_HELD.format(2, 3)}")
)

# Files

ADD_FILE = Write(
    f"""
    WITH charged AS (
        INSERT INTO belljar.usage AS u (owner, bytes) SELECT $2, $6::bigint WHERE $6::bigint <= $10::bigint
        ON CONFLICT (owner) DO UPDATE SET bytes = u.bytes + excluded.bytes WHERE u.bytes + excluded.bytes <= $10::bigint
        RETURNING 1
    ), added AS (
        INSERT INTO belljar.files ({FILES.columns})
        SELECT $1, $2, $3, $4, $5, $6::bigint, $7, $8, $9 FROM charged RETURNING 1
    ) SELECT count(*) FROM added
    """
)


def _delete_files(which: str) -> Write:
    return Write(
        f"""
        WITH gone AS (DELETE FROM belljar.files WHERE {which} RETURNING owner, size), freed AS (
            UPDATE belljar.usage SET bytes = greatest(usage.bytes - one.bytes, 0)
            FROM (SELECT owner, sum(size)::bigint AS bytes FROM gone GROUP BY owner) AS one
            WHERE usage.owner = one.owner
        ) SELECT count(*) FROM gone
        """,
        together=1,
    )


DELETE_FILE = _delete_files("id = $1 AND owner = $2")
EXPIRE_FILES = _delete_files(
    "id IN (SELECT id FROM belljar.files WHERE expires_at <= $1 LIMIT 1000 FOR UPDATE SKIP LOCKED)"
)
_SPENT = "CASE WHEN u.minute < $2 THEN 0 ELSE u.requests END"
_GIVEN = "greatest(least($3::bigint, $4::bigint - {}), 0)"
SPEND_REQUESTS = Write(
    f"""
    INSERT INTO belljar.usage AS u (owner, minute, requests, given)
    VALUES ($1, $2, {_GIVEN.format(0)}, {_GIVEN.format(0)})
    ON CONFLICT (owner) DO UPDATE SET
        minute = greatest(u.minute, $2),
        requests = {_SPENT} + {_GIVEN.format(_SPENT)},
        given = {_GIVEN.format(_SPENT)}
    RETURNING given
    """
)
_TAKEN = f"""
    FROM jsonb_each_text(u.places) AS place (id, gateway) JOIN belljar.gateways AS g ON g.id = place.gateway
    WHERE g.until > {NOW} AND place.id <> $2
"""
TAKE_PLACE = Write(
    f"""
    WITH taken AS (
        INSERT INTO belljar.usage AS u (owner, places) VALUES ($1, jsonb_build_object($2::text, $3::text))
        ON CONFLICT (owner) DO UPDATE SET places = excluded.places
            || coalesce((SELECT jsonb_object_agg(place.id, place.gateway) {_TAKEN}), '{{}}')
            WHERE (SELECT count(*) {_TAKEN}) < $4::bigint
        RETURNING 1
    ) SELECT count(*) FROM taken
    """
)
GIVE_PLACE = Write("UPDATE belljar.usage SET places = places - $2::text WHERE owner = $1", silent=True)

# Retention

_OVER = f"created_at < $1 AND NOT {UNFINISHED}"
_OLD: Mapping[Kept, str] = {
    "responses": f"""
        SELECT id FROM belljar.responses AS r WHERE {_OVER}
        AND NOT EXISTS (SELECT 1 FROM belljar.responses AS later WHERE later.previous_id = r.id)
    """,
    "events": f"""
        SELECT id FROM belljar.responses AS r WHERE {_OVER}
        AND EXISTS (SELECT 1 FROM belljar.events WHERE response_id = r.id)
    """,
    "containers": f"SELECT id FROM belljar.containers WHERE last_active_at < $1 AND {DEAD}",
    "files": "SELECT id FROM belljar.files WHERE created_at < $1",
}
_FREED = """
    UPDATE belljar.usage SET bytes = greatest(usage.bytes - one.bytes, 0)
    FROM (SELECT owner, sum(bytes)::bigint AS bytes FROM gone GROUP BY owner) AS one WHERE usage.owner = one.owner
"""


def _remove_old(kind: Kept, delete: str, freed: str = "SELECT 1") -> Write:
    return Write(
        f"""
        WITH old AS MATERIALIZED ({_OLD[kind]} LIMIT $2 FOR UPDATE SKIP LOCKED), gone AS ({delete}), freed AS ({freed})
        SELECT count(*) FROM gone
        """,
        together=1,
        timeout=60.0,
    )


REMOVE_OLD: Mapping[Kept, Write] = {
    "responses": _remove_old(
        "responses", "DELETE FROM belljar.responses AS r USING old WHERE r.id = old.id RETURNING 1"
    ),
    "events": _remove_old("events", "DELETE FROM belljar.events USING old WHERE response_id = old.id RETURNING 1"),
    "containers": _remove_old(
        "containers",
        "DELETE FROM belljar.containers AS c USING old WHERE c.id = old.id RETURNING c.owner, c.bytes",
        _FREED,
    ),
    "files": _remove_old(
        "files",
        "DELETE FROM belljar.files AS f USING old WHERE f.id = old.id RETURNING f.owner, f.size AS bytes",
        _FREED,
    ),
}
COUNT_OLD: Mapping[Kept, str] = {
    "responses": f"""
        WITH RECURSIVE kept (id) AS (
            SELECT previous_id FROM belljar.responses WHERE previous_id IS NOT NULL AND NOT ({_OVER})
            UNION SELECT r.previous_id FROM kept JOIN belljar.responses AS r ON r.id = kept.id
            WHERE r.previous_id IS NOT NULL
        ) SELECT count(*), coalesce(sum(length(input) + length(output) + length(body)), 0)::bigint
        FROM belljar.responses WHERE {_OVER} AND id NOT IN (SELECT id FROM kept)
    """,
    "events": f"""
        SELECT count(*), coalesce(sum(length(e.body)), 0)::bigint
        FROM belljar.events AS e JOIN belljar.responses AS r ON r.id = e.response_id WHERE {_OVER}
    """,
    "containers": f"""
        SELECT count(*), coalesce(sum(bytes), 0)::bigint FROM belljar.containers WHERE last_active_at < $1 AND {DEAD}
    """,
    "files": "SELECT count(*), coalesce(sum(size), 0)::bigint FROM belljar.files WHERE created_at < $1",
}
TAKE_TURN = Write(
    f"""
    WITH taken AS (
        INSERT INTO belljar.turns AS t (name, who, until) VALUES ($1, $2, {NOW} + make_interval(secs => $3))
        ON CONFLICT (name) DO UPDATE SET who = excluded.who, until = excluded.until
            WHERE t.who = excluded.who OR t.until <= {NOW}
        RETURNING 1
    ) SELECT count(*) FROM taken
    """
)

# Keys and secrets

# Whoever writes a key has read it some time before, and must not bring one back that was revoked since.
PUT_KEY = Write(
    f"""
    {_insert(KEYS).replace("belljar.keys", "belljar.keys AS k")} ON CONFLICT (id) DO UPDATE SET
        name = excluded.name,
        last_used_at = nullif(greatest(coalesce(k.last_used_at, 0), coalesce(excluded.last_used_at, 0)), 0),
        revoked_at = coalesce(k.revoked_at, excluded.revoked_at)
    """,
    silent=True,
)
AGREE = Write(
    """
    INSERT INTO belljar.secrets AS s (name, value) VALUES ($1, $2)
    ON CONFLICT (name) DO UPDATE SET value = s.value RETURNING value
    """
)
