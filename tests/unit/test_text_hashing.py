"""Hashes are part of the model format: their values are pinned, and they must mix well."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonline import _core

SEED, FIRST, SECOND, LAST = ((math.isqrt(prime << 128) & (2**64 - 1)) | 1 for prime in (2, 3, 5, 7))


def fold(a, b):
    low, high = a * b & (2**64 - 1), a * b >> 64
    return low ^ high ^ a ^ b


def hash_by_definition(data, seed=0):
    """Say in plain Python what hashing.hpp computes."""

    def word(start, stop):
        return int.from_bytes(data[start:stop], "little")

    size, state, head, tail = len(data), fold(seed ^ SEED, FIRST), 0, 0
    if size > 16:
        for start in range(0, size - 16, 16):
            state = fold(
                word(start, start + 8) ^ FIRST ^ state, word(start + 8, start + 16) ^ SECOND
            )
        head, tail = word(size - 16, size - 8), word(size - 8, size)
    elif size >= 8:
        head, tail = word(0, 8), word(size - 8, size)
    elif size >= 4:
        head, tail = word(0, 4), word(size - 4, size)
    elif size > 0:
        head = data[0] << 16 | data[size // 2] << 8 | data[size - 1]
    return fold(fold(head ^ FIRST ^ state, tail ^ SECOND) ^ LAST, size ^ SECOND)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0x62BBEEA03B051A84),
        (b"a", 0x68A2D14D9163C10F),
        (b"age", 0x1EC093937FF4E800),
        (b"user^age", 0xA7D119434C7BAAE5),
        (b"a name of more than sixteen bytes", 0x26E6ECA6B3B29BA5),
    ],
)
def test_values_never_change(data, expected):
    assert _core.hash_bytes(data) == expected


@given(st.binary(max_size=80), st.integers(0, 2**64 - 1))
def test_hash_is_as_defined_on_every_machine(data, seed):
    assert _core.hash_bytes(data, seed) == hash_by_definition(data, seed)


def test_seed_changes_the_hash():
    assert _core.hash_bytes(b"age", seed=1) != _core.hash_bytes(b"age")


@pytest.mark.parametrize("size", [2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33])
def test_each_input_bit_flips_about_half_of_the_output_bits(size):
    rng = np.random.default_rng(size)
    trials = 300
    changes = np.empty((trials, size * 8), np.uint64)
    for trial in range(trials):
        data = int.from_bytes(rng.bytes(size), "little")
        hashes = [
            _core.hash_bytes((data ^ flip).to_bytes(size, "little"))
            for flip in (0, *(1 << bit for bit in range(size * 8)))
        ]
        changes[trial] = np.array(hashes[1:], np.uint64) ^ np.uint64(hashes[0])
    rates = np.unpackbits(changes.view(np.uint8).reshape(trials, -1), axis=1).mean(axis=0)
    # Each of the rates has standard deviation 0.029; 0.17 is six of them.
    assert np.abs(rates - 0.5).max() < 0.17
    assert abs(rates.mean() - 0.5) < 0.005


def test_similar_names_collide_no_more_than_chance():
    names = [f"user={i}".encode() for i in range(200_000)]
    names += [f"{a}^{b}".encode() for a, b in itertools.product(range(300), range(300))]
    for shift in (0, 40):
        slots = {(_core.hash_bytes(name) >> shift) & 0xFFFFFF for name in names}
        expected = 2**24 * (1 - (1 - 2**-24) ** len(names))
        # The number of occupied slots has a standard deviation below 60.
        assert abs(len(slots) - expected) < 400


@given(st.integers(0, 2**63 - 1), st.integers(1, 62))
def test_slots_of_integers(index, bits):
    slot = _core.hash_slot(index, bits)
    assert 0 <= slot < 2**bits
    if index < 2**bits:
        assert slot == index
    assert _core.hash_slot(str(index).encode(), bits) == slot


def test_large_integers_spread_over_all_slots():
    counts = np.bincount([_core.hash_slot(2**40 + 1024 * i, 8) for i in range(25_600)])
    assert len(counts) == 256
    assert counts.min() > 50
    assert counts.max() < 150


@pytest.mark.parametrize("name", [b"017", b"+1", b"1.0", b"", b" 1", b"9223372036854775808"])
def test_only_plain_decimal_names_count_as_integers(name):
    assert _core.hash_slot(name, 24) == _core.hash_bytes(name) >> 40


@given(st.lists(st.binary(max_size=24), max_size=60), st.data())
def test_name_table_is_a_map_in_order_of_insertion(names, data):
    table = _core.NameTable()
    order = list(dict.fromkeys(names))
    assert [table.insert(name) for name in names] == [order.index(name) for name in names]
    assert len(table) == len(order)
    assert [table.name(i) for i in range(len(table))] == order
    keep = data.draw(st.integers(0, len(order)))
    table.truncate(keep)
    assert [table.find(name) for name in order] == [*range(keep), *[None] * (len(order) - keep)]
    again = _core.NameTable.restore(*table.saved())
    assert [again.insert(name) for name in order] == list(range(len(order)))


def test_name_table_grows():
    table = _core.NameTable()
    names = [f"name {i}".encode() for i in range(100_000)]
    for i, name in enumerate(names):
        assert table.insert(name) == i
    assert all(table.find(name) == i for i, name in enumerate(names))
    assert table.find(b"name") is None


@pytest.mark.parametrize(
    ("blob", "offsets", "message"),
    [
        (b"ab", [], "start with 0"),
        (b"ab", [1, 2], "start with 0"),
        (b"ab", [0, 1], "end with the blob's size"),
        (b"ab", [0, 2, 1, 2], "must not decrease"),
        (b"aa", [0, 1, 2], "distinct"),
        (b"a", [0, 2**63, 1], "must not decrease"),
    ],
)
def test_damaged_name_tables_are_refused(blob, offsets, message):
    with pytest.raises(ValueError, match=message):
        _core.NameTable.restore(blob, offsets)


def test_unknown_id_is_an_index_error():
    with pytest.raises(IndexError):
        _core.NameTable().name(0)
