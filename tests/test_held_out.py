"""Who is held out: how many of each class, who comes first, and what is never held out."""

import numpy as np

from cual.held_out import held_out_of_accepted, held_out_of_first, held_out_of_taught
from cual.learned import coins
from cual.learners import Accepted


def test_a_tenth_of_each_first_class_is_held_out_and_one_at_least_of_three():
    codes = np.random.default_rng(0).permutation(np.repeat([0, 1, 2, 3, 4], [40, 26, 3, 2, 1]))
    held_out = held_out_of_first(codes, share=0.1, seed=0)
    assert [int(held_out[codes == c].sum()) for c in range(5)] == [4, 3, 1, 0, 0]
    assert held_out.tolist() == held_out_of_first(codes, share=0.1, seed=0).tolist()
    assert held_out.tolist() != held_out_of_first(codes, share=0.1, seed=1).tolist()


def test_a_tenth_of_what_is_learned_of_a_class_is_held_out():
    """0 is old and only people named it: nothing of it is learned anew. 1 is believed; 2 and 3 are new."""
    classes = np.repeat([0, 1, 2, 3], [30, 30, 30, 9])
    human = np.zeros(99, np.int64)
    human[:30] = 1
    human[60:70] = 1
    human[90:] = 1
    accepted = Accepted(np.arange(99), classes, human)
    held_out = held_out_of_accepted(accepted, n_old=2, share=0.1, seed=0, task=1)
    assert [int(held_out[classes == c].sum()) for c in range(4)] == [0, 3, 3, 0]  # of nine, a tenth is none
    assert not held_out[human == 1].any()  # believed ones come first: answers are worth learning from
    held_out = held_out_of_accepted(accepted, n_old=2, share=0.2, seed=0, task=1)
    assert [int(held_out[classes == c].sum()) for c in range(4)] == [0, 6, 6, 1]  # nobody was believed of 3
    assert held_out_of_accepted(accepted, 2, 0.2, seed=0, task=2).tolist() != held_out.tolist()


def test_the_first_new_class_is_new_although_only_people_named_it():
    accepted = Accepted(np.arange(20), np.full(20, 2), np.ones(20, np.int64))
    assert held_out_of_accepted(accepted, n_old=2, share=0.1, seed=0, task=1).sum() == 2
    assert held_out_of_accepted(accepted, n_old=3, share=0.1, seed=0, task=1).sum() == 0


def test_of_what_is_taught_each_sample_has_a_coin_of_its_own():
    marks = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, 400)
    codes = np.repeat([0, 1], 200)
    held_out = held_out_of_taught(marks, codes, n_old=2, share=0.1, seed=3)
    assert held_out.tolist() == [bool(coin < np.float32(0.1)) for coin in coins(marks, 3)]
    some = np.arange(0, 400, 7)  # who is taught fewer holds out the same ones
    assert held_out_of_taught(marks[some], codes[some], 2, 0.1, 3).tolist() == held_out[some].tolist()


def test_a_new_class_of_which_the_coins_leave_nothing_is_learned_whole():
    marks = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, 400)
    held = marks[coins(marks, 0) < 0.1]
    learned = marks[coins(marks, 0) >= 0.1][:5]
    marks, codes = np.concatenate([held[:9], learned]), np.array([1] * 3 + [2] * 3 + [3] * 3 + [3] * 5)
    held_out = held_out_of_taught(marks, codes, n_old=2, share=0.1, seed=0)
    # class 1 is old: what is known of it stays, so all of it may be held out. Of 2 nothing would be left.
    assert held_out.tolist() == [True] * 3 + [False] * 3 + [True] * 3 + [False] * 5
