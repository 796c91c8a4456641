"""Messages between processes of the tool."""

import contextlib
import os

import pytest

from minifier.process.channel import ChannelEnded, Receiver, Sender, read_messages


@pytest.fixture
def ends():
    """A sender, and the receiver of what it sends."""
    reading, writing = os.pipe()
    yield Sender(writing), Receiver(reading)
    for file in (reading, writing):
        with contextlib.suppress(OSError):  # closed by the test
            os.close(file)


def test_all_that_has_arrived_is_received_at_once(ends):
    sender, receiver = ends
    assert receiver.received() == []
    for number in range(4):
        sender.send(number=number)
    assert receiver.received() == [{"number": number} for number in range(4)]


@pytest.mark.usefixtures("processes")
def test_a_message_that_fills_the_pipe_arrives_whole(ends):
    sender, receiver = ends
    text = "\u00e9" * 200_000
    child = os.fork()
    if child == 0:
        sender.send(text=text)
        os._exit(0)
    found = []
    while not found:
        found = receiver.received()
    assert found == [{"text": text}]
    assert os.waitpid(child, 0)[1] == 0


def test_what_was_sent_before_the_end_is_received(ends):
    sender, receiver = ends
    sender.send(last=True)
    os.close(sender.file)
    assert receiver.received() == [{"last": True}]
    assert receiver.received() == []


def test_nothing_is_sent_to_an_end_that_nobody_reads(ends):
    sender, receiver = ends
    os.close(receiver.file)
    with pytest.raises(ChannelEnded):
        sender.send(number=1)


def test_nothing_is_written_into_a_file_that_got_the_number(ends, tmp_path):
    sender, _ = ends
    own = os.open(tmp_path / "own", os.O_WRONLY | os.O_CREAT)
    os.dup2(own, sender.file)
    os.close(own)
    with pytest.raises(ChannelEnded):
        sender.send(number=1)
    assert (tmp_path / "own").read_bytes() == b""


def test_what_is_no_message_is_passed_over_and_a_part_is_kept():
    assert read_messages(b'{"a": 1}\nwhat a backend prints\n[1]\n3\n\n{"b": 2}\n{"c"') == (
        [{"a": 1}, {"b": 2}],
        b'{"c"',
    )
