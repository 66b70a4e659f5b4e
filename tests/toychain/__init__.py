"""Toy blocks contain moves of coins, are linked by BLAKE2 seals and have no receipts."""

from tests.toychain.family import TOY as TOY
