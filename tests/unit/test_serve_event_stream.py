"""Frames as server-sent events: their ids are the cursors from which a client can continue."""

from ludolf.serve.event_stream import EventStream

SNAPSHOT = b'{"session":"a","role":"view","mode":"snapshot","cursor":"e5-d2-7","entries":[]}'


def test_a_snapshot_is_the_first_event_and_a_replay_has_none() -> None:
    frame = b'{"session":"a","type":"resync","data":%b}' % SNAPSHOT
    assert EventStream(SNAPSHOT).first == b"id: e5-d2-7\nevent: snapshot\ndata: %b\n\n" % frame
    replay = b'{"session":"a","role":"view","mode":"replay","cursor":"e5-d2-9","replayed":2}'
    assert EventStream(replay).first == b":\n\n"


def test_only_numbered_frames_have_an_id() -> None:
    numbered = b'{"session":"a","seq":8,"type":"agent_start"}'
    others = (
        b'{"session":"a","type":"client_left","client":"x"}',
        b'{"type":"server_closing","seconds":5.0}',
        b'{"session":"a","type":"note","text":"{\\"session\\":\\"a\\",\\"seq\\":1,"}',
    )
    text = EventStream(SNAPSHOT).events((numbered, *others))
    assert text == b"id: e5-d2-8\n" + b"".join(b"data: %b\n\n" % f for f in (numbered, *others))


def test_after_a_resync_the_ids_have_its_epoch() -> None:
    resync = b'{"session":"b","type":"resync","data":{"session":"b","cursor":"f6-3","entries":[]}}'
    next_frame = b'{"session":"b","seq":4,"type":"agent_start"}'
    text = EventStream(SNAPSHOT).events((resync, next_frame))
    assert text == (
        b"id: f6-3\nevent: snapshot\ndata: %b\n\nid: f6-4\ndata: %b\n\n" % (resync, next_frame)
    )
