"""Make four problem files for a real but small language model: word problems and functions of one line.

This reads nothing and writes demo/{word_a,word_b,func_a,func_b}.jsonl in a second, always the same bytes.

    python demo/make_real.py
    FLAGS_01="--temperature .7 --top-k 40 --max-new-tokens 64" \
        bash run_all.sh HuggingFaceTB/SmolLM2-135M-Instruct demo/word_a.jsonl demo/word_b.jsonl

A few examples open each chat, because the model keeps to no form without them. The two files of a pair share
these examples, but no kind of problem and no sum or function: a scorer is calibrated on one file and evaluated
on the other. The field `family` of a problem names its kind.
"""

import argparse
import json
import random
from pathlib import Path

PROBLEMS = 200  # in each file
NAMES = ["Ana", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gina", "Hugo"]
THINGS = ["pens", "coins", "cards", "shells", "apples", "stamps", "books", "eggs"]
LETTERS = "abcdeimorstu"

WORD_CHAT = [
    ("Tom has 5 plums and buys 7 more. How many plums does Tom have?", "5 + 7 = 12. The answer is 12."),
    ("There are 13 plums on a table. Tom takes 5 of them. How many plums are still there?",
     "13 - 5 = 8. The answer is 8."),
    ("Each of 3 plates holds 6 plums. How many plums are there?", "3 * 6 = 18. The answer is 18."),
    ("Tom has 9 plums and eats 4. How many plums are left?", "9 - 4 = 5. The answer is 5."),
    ("What is 8 plus 6?", "8 + 6 = 14. The answer is 14."),
]  # fmt: skip
# For each file the kinds of word problems by name: the signs between the numbers x, y and z, which are applied
# from left to right, and the text. The model adds and multiplies small numbers, but fails at nearly all
# subtractions and second steps, so these kinds are few.
WORD_KINDS = {
    "word_a": {
        "plus": ("+", "What is {x} + {y}?"),
        "gets": ("+", "{who} has {x} {things} and gets {y} more. How many {things} does {who} have now?"),
        "buys": ("+", "{who} had {x} {things} and bought {y} more. How many {things} does {who} have?"),
        "together": ("+", "{who} has {x} {things}. A friend has {y} {things}. "
                     "How many {things} do they have together?"),
        "days": ("+", "{who} found {x} {things} on Monday and {y} on Tuesday. "
                 "How many {things} did {who} find?"),
        "before": ("+", "{who} got {y} {things} today. Before that {who} had {x}. "
                   "How many {things} does {who} have now?"),
        "older": ("+", "{who} is {x} years old. How old will {who} be in {y} years?"),
        "warmer": ("+", "It is {x} degrees in the morning and {y} degrees warmer at noon. "
                   "How many degrees is it at noon?"),
        "colours": ("+", "{who} has {x} red {things} and {y} blue {things}. "
                    "How many {things} does {who} have?"),
        "come_in": ("+", "There are {x} children in a room and {y} more come in. "
                    "How many children are there now?"),
        "minus": ("-", "What is {x} - {y}?"),
        "calculate": ("-", "Calculate {x} - {y}."),
        "gives": ("-", "{who} has {x} {things} and gives away {y}. How many {things} are left?"),
        "loses": ("-", "{who} had {x} {things} and lost {y} of them. "
                  "How many {things} does {who} still have?"),
        "leave": ("-", "There are {x} children in a room and {y} leave. How many children are left?"),
        "pages": ("-", "A book has {x} pages and {who} has read {y}. How many pages are left to read?"),
        "eats": ("-", "{who} has {x} cookies and eats {y}. How many cookies are left?"),
        "times": ("*", "What is {x} * {y}?"),
        "bags": ("*", "There are {x} bags with {y} {things} in each. How many {things} are there?"),
        "price": ("*", "A ticket costs {y} dollars. How many dollars do {x} tickets cost?"),
        "daily": ("*", "{who} reads {y} pages a day. How many pages does {who} read in {x} days?"),
        "each": ("*", "Each of {x} children has {y} {things}. How many {things} do they have?"),
        "shelves": ("*", "There are {x} shelves with {y} books on each. How many books are there?"),
        "packs": ("*", "{who} has {x} packs of {y} {things}. How many {things} does {who} have?"),
        "stacks": ("*", "{x} stacks hold {y} coins each. How many coins are there?"),
        "runs": ("*", "{who} runs {y} miles every day. How many miles does {who} run in {x} days?"),
        "three": ("++", "What is {x} + {y} + {z}?"),
        "gets_gives": ("+-", "{who} has {x} {things}, gets {y} more and gives away {z}. "
                       "How many {things} are left?"),
        "takes_twice": ("--", "There are {x} {things}. {who} takes {y} and then {z}. "
                        "How many {things} are left?"),
        "bags_more": ("*+", "{who} has {x} bags of {y} {things} and {z} more. "
                      "How many {things} does {who} have?"),
    },
    "word_b": {
        "sum": ("+", "Find the sum of {x} and {y}."),
        "add": ("+", "Add {y} to {x}."),
        "total": ("+", "What is the total of {x} and {y}?"),
        "box": ("+", "There are {x} {things} in a box. {who} adds {y} {things}. "
                "How many {things} are in the box?"),
        "class": ("+", "There are {x} boys and {y} girls in a class. How many children are in the class?"),
        "both_cost": ("+", "A lamp costs {x} dollars and a cup costs {y} dollars. "
                      "How many dollars do both cost?"),
        "walk": ("+", "{who} walks {x} miles and then {y} more miles. How many miles does {who} walk?"),
        "get_on": ("+", "There are {x} people on a bus and {y} get on. How many people are on the bus?"),
        "farm": ("+", "A farm has {x} cows and {y} sheep. How many animals does the farm have?"),
        "planted": ("+", "{who} planted {x} trees last year and {y} trees this year. "
                    "How many trees did {who} plant?"),
        "minus_in_words": ("-", "What is {x} minus {y}?"),
        "take": ("-", "Take {y} away from {x}. What is left?"),
        "subtract": ("-", "Subtract {y} from {x}."),
        "sells": ("-", "A shop has {x} {things} and sells {y}. "
                  "How many {things} does the shop still have?"),
        "pays": ("-", "{who} has {x} dollars and pays {y} dollars. How many dollars does {who} keep?"),
        "birds": ("-", "{x} birds sit in a tree and {y} fly away. How many birds are in the tree now?"),
        "get_off": ("-", "There are {x} people on a train and {y} get off. "
                    "How many people are left on the train?"),
        "times_in_words": ("*", "What is {x} times {y}?"),
        "product": ("*", "Find the product of {x} and {y}."),
        "boxes": ("*", "{who} buys {x} boxes of {y} {things}. How many {things} does {who} have?"),
        "seats": ("*", "{x} cars have {y} seats each. How many seats do they have in all?"),
        "earns": ("*", "{who} earns {y} dollars an hour and works for {x} hours. "
                  "How many dollars does {who} earn?"),
        "seeds": ("*", "{who} plants {y} seeds in each of {x} pots. How many seeds does {who} plant?"),
        "hen": ("*", "A hen lays {y} eggs a week. How many eggs does it lay in {x} weeks?"),
        "trays": ("*", "A baker fills {x} trays with {y} rolls each. How many rolls are there?"),
        "teams": ("*", "There are {x} teams of {y} players. How many players are there?"),
        "add_three": ("++", "Find the sum of {x}, {y} and {z}."),
        "on_and_off": ("+-", "There are {x} people on a bus. {y} get on, then {z} get off. "
                       "How many people are on the bus?"),
        "sells_twice": ("--", "A shop has {x} {things} and sells {y} today and {z} tomorrow. "
                        "How many {things} does the shop keep?"),
        "tables": ("*+", "There are {x} tables with {y} chairs each and {z} more chairs. "
                   "How many chairs are there?"),
    },
}  # fmt: skip
# For the first sign of a kind: the smallest and largest x, the smallest and largest y. z is 2 to 9.
SIZES = {"+": (2, 21, 2, 9), "-": (4, 19, 2, 9), "*": (2, 13, 2, 12)}

FUNCTION_CHAT = [
    ("Write a Python function starts_with_q(s) that returns True if s starts with 'q'.",
     "def starts_with_q(s):\n    return s.startswith('q')"),
    ("Write a Python function squares(xs) that returns a list of the squares of xs.",
     "def squares(xs):\n    return [x ** 2 for x in xs]"),
]  # fmt: skip
# For each file the kinds of functions of n (a number), s (a text), xs (a list of numbers) or words (a list of
# texts): the name and what it returns, and the expression that does it. {k} is a number and {c} a letter.
FUNCTION_KINDS = {
    "func_a": {
        "add_{k}(n) that returns n plus {k}": "n + {k}",
        "times_{k}(n) that returns n times {k}": "n * {k}",
        "remainder_{k}(n) that returns the remainder of n divided by {k}": "n % {k}",
        "is_above_{k}(n) that returns True if n is greater than {k}": "n > {k}",
        "subtract_from_{k}(n) that returns {k} minus n": "{k} - n",
        "max_with_{k}(n) that returns the larger of n and {k}": "max(n, {k})",
        "power_{k}(n) that returns n to the power of {k}": "n ** {k}",
        "equals_{k}(n) that returns True if n equals {k}": "n == {k}",
        "twice_plus_{k}(n) that returns two times n plus {k}": "2 * n + {k}",
        "round_down_to_{k}(n) that returns n minus the remainder of n divided by {k}": "n - n % {k}",
        "as_text_with_{c}(n) that returns n as a string plus '{c}'": "str(n) + '{c}'",
        "is_even_above_{k}(n) that returns True if n is even and greater than {k}": "n % 2 == 0 and n > {k}",
        "add_{k}_if_positive(n) that returns n plus {k} if n is positive, else n": "n + {k} if n > 0 else n",
        "list_with_{k}(n) that returns a list of n and {k}": "[n, {k}]",
        "first_{k}(s) that returns the first {k} letters of s": "s[:{k}]",
        "repeat_{k}(s) that returns s repeated {k} times": "s * {k}",
        "ends_with_{c}(s) that returns True if s ends with '{c}'": "s.endswith('{c}')",
        "count_{c}(s) that returns how often '{c}' is in s": "s.count('{c}')",
        "upper_plus_{c}(s) that returns s in upper case plus '{c}'": "s.upper() + '{c}'",
        "dash_for_{c}(s) that returns s with '-' instead of each '{c}'": "s.replace('{c}', '-')",
        "without_first_{k}(s) that returns s without its first {k} letters": "s[{k}:]",
        "every_{k}(s) that returns every {k}th letter of s, beginning with the first": "s[::{k}]",
        "find_{c}(s) that returns the index of the first '{c}' in s, or -1": "s.find('{c}')",
        "is_longer_than_{k}(s) that returns True if s has more than {k} letters": "len(s) > {k}",
        "split_at_{c}(s) that returns a list of the parts of s, split at '{c}'": "s.split('{c}')",
        "strip_{c}(s) that returns s with '{c}' stripped from both ends": "s.strip('{c}')",
        "length_times_{k}(s) that returns the length of s times {k}": "len(s) * {k}",
        "reverse_plus_{c}(s) that returns s reversed plus '{c}'": "s[::-1] + '{c}'",
        "is_{c}(s) that returns True if s equals '{c}'": "s == '{c}'",
        "zeros_to_{k}(s) that returns s with zeros on the left up to {k} letters": "s.rjust({k}, '0')",
        "count_other_than_{c}(s) that returns how many letters of s are not '{c}'": "len(s) - s.count('{c}')",
        "add_{k}_to_each(xs) that returns a list of x plus {k} for each x in xs": "[x + {k} for x in xs]",
        "sum_plus_{k}(xs) that returns the sum of xs plus {k}": "sum(xs) + {k}",
        "above_{k}(xs) that returns a list of each x in xs greater than {k}": "[x for x in xs if x > {k}]",
        "contains_{k}(xs) that returns True if {k} is in xs": "{k} in xs",
        "drop_{k}(xs) that returns xs without the first {k} numbers": "xs[{k}:]",
        "multiples_of_{k}(xs) that returns a list of each x in xs that is a multiple of {k}":
            "[x for x in xs if x % {k} == 0]",
        "count_above_{k}(xs) that returns how many numbers in xs are greater than {k}":
            "sum(x > {k} for x in xs)",
        "append_{k}(xs) that returns xs plus a list of {k}": "xs + [{k}]",
        "sum_of_first_{k}(xs) that returns the sum of the first {k} numbers of xs": "sum(xs[:{k}])",
        "any_above_{k}(xs) that returns True if any number in xs is greater than {k}":
            "any(x > {k} for x in xs)",
        "divide_each_by_{k}(xs) that returns a list of x / {k} for each x in xs": "[x / {k} for x in xs]",
        "largest_plus_{k}(xs) that returns the largest number in xs plus {k}": "max(xs) + {k}",
        "sorted_with_{k}(xs) that returns a sorted list of xs and {k}": "sorted(xs + [{k}])",
        "cap_at_{k}(xs) that returns a list of the smaller of x and {k} for each x in xs":
            "[min(x, {k}) for x in xs]",
        "squares_plus_{k}(xs) that returns a list of the square of x plus {k} for each x in xs":
            "[x ** 2 + {k} for x in xs]",
        "length_minus_{k}(xs) that returns the length of xs minus {k}": "len(xs) - {k}",
        "zero_for_{k}(xs) that returns a list of xs with 0 instead of each {k}":
            "[0 if x == {k} else x for x in xs]",
        "remainders_{k}(xs) that returns a list of x % {k} for each x in xs": "[x % {k} for x in xs]",
        "sum_is_above_{k}(xs) that returns True if the sum of xs is greater than {k}": "sum(xs) > {k}",
        "repeat_list_{k}(xs) that returns xs repeated {k} times": "xs * {k}",
        "join_with_{c}(words) that returns the words joined by '{c}'": "'{c}'.join(words)",
        "longer_than_{k}(words) that returns a list of the words with more than {k} letters":
            "[word for word in words if len(word) > {k}]",
        "add_{c}_to_each(words) that returns a list of each word plus '{c}'":
            "[word + '{c}' for word in words]",
        "count_with_{c}(words) that returns how many words have '{c}' in them":
            "sum('{c}' in word for word in words)",
        "first_{k}_of_each(words) that returns a list of the first {k} letters of each word":
            "[word[:{k}] for word in words]",
        "any_starts_with_{c}(words) that returns True if any word starts with '{c}'":
            "any(word.startswith('{c}') for word in words)",
        "lengths_plus_{k}(words) that returns a list of the length of each word plus {k}":
            "[len(word) + {k} for word in words]",
        "without_{c}(words) that returns a list of the words without '{c}' in them":
            "[word for word in words if '{c}' not in word]",
        "has_more_than_{k}(words) that returns True if there are more than {k} words": "len(words) > {k}",
    },
    "func_b": {
        "minus_{k}(n) that returns n minus {k}": "n - {k}",
        "square_plus_{k}(n) that returns the square of n plus {k}": "n * n + {k}",
        "divide_by_{k}(n) that returns n // {k}": "n // {k}",
        "is_multiple_of_{k}(n) that returns True if n is a multiple of {k}": "n % {k} == 0",
        "is_below_{k}(n) that returns True if n is less than {k}": "n < {k}",
        "distance_to_{k}(n) that returns the absolute value of n minus {k}": "abs(n - {k})",
        "min_with_{k}(n) that returns the smaller of n and {k}": "min(n, {k})",
        "differs_from_{k}(n) that returns True if n is not {k}": "n != {k}",
        "half_minus_{k}(n) that returns n / 2 minus {k}": "n / 2 - {k}",
        "triple_above_{k}(n) that returns 3 times n if n is greater than {k}, else n":
            "3 * n if n > {k} else n",
        "letters_{c}(n) that returns '{c}' repeated n times": "'{c}' * n",
        "is_odd_below_{k}(n) that returns True if n is odd and less than {k}": "n % 2 == 1 and n < {k}",
        "zero_below_{k}(n) that returns 0 if n is less than {k}, else n": "0 if n < {k} else n",
        "cube_minus_{k}(n) that returns the cube of n minus {k}": "n ** 3 - {k}",
        "last_{k}(s) that returns the last {k} letters of s": "s[-{k}:]",
        "append_{c}(s) that returns s plus '{c}'": "s + '{c}'",
        "has_{c}(s) that returns True if '{c}' is in s": "'{c}' in s",
        "remove_{c}(s) that returns s without '{c}'": "s.replace('{c}', '')",
        "length_plus_{k}(s) that returns the length of s plus {k}": "len(s) + {k}",
        "prepend_{c}(s) that returns '{c}' plus s": "'{c}' + s",
        "double_{c}(s) that returns s with '{c}{c}' instead of each '{c}'": "s.replace('{c}', '{c}{c}')",
        "without_last_{k}(s) that returns s without its last {k} letters": "s[:-{k}]",
        "is_shorter_than_{k}(s) that returns True if s has less than {k} letters": "len(s) < {k}",
        "find_last_{c}(s) that returns the index of the last '{c}' in s, or -1": "s.rfind('{c}')",
        "lower_plus_{c}(s) that returns s in lower case plus '{c}'": "s.lower() + '{c}'",
        "raise_{c}(s) that returns s with each '{c}' in upper case": "s.replace('{c}', '{c}'.upper())",
        "between_{c}(s) that returns '{c}' plus s plus '{c}'": "'{c}' + s + '{c}'",
        "length_remainder_{k}(s) that returns the remainder of the length of s divided by {k}": "len(s) % {k}",
        "has_two_{c}(s) that returns True if '{c}' is more than once in s": "s.count('{c}') > 1",
        "dots_to_{k}(s) that returns s with dots on the right up to {k} letters": "s.ljust({k}, '.')",
        "upper_first_{k}(s) that returns the first {k} letters of s in upper case": "s[:{k}].upper()",
        "times_{k}_each(xs) that returns a list of x times {k} for each x in xs": "[x * {k} for x in xs]",
        "count_{k}(xs) that returns how often {k} is in xs": "xs.count({k})",
        "not_{k}(xs) that returns a list of each x in xs that is not {k}": "[x for x in xs if x != {k}]",
        "max_times_{k}(xs) that returns the largest number in xs times {k}": "max(xs) * {k}",
        "below_{k}(xs) that returns a list of each x in xs less than {k}": "[x for x in xs if x < {k}]",
        "take_{k}(xs) that returns the first {k} numbers of xs": "xs[:{k}]",
        "take_last_{k}(xs) that returns the last {k} numbers of xs": "xs[-{k}:]",
        "sum_times_{k}(xs) that returns the sum of xs times {k}": "sum(xs) * {k}",
        "count_below_{k}(xs) that returns how many numbers in xs are less than {k}":
            "sum(x < {k} for x in xs)",
        "put_{k}_first(xs) that returns a list of {k} plus xs": "[{k}] + xs",
        "all_below_{k}(xs) that returns True if all numbers in xs are less than {k}":
            "all(x < {k} for x in xs)",
        "smallest_minus_{k}(xs) that returns the smallest number in xs minus {k}": "min(xs) - {k}",
        "raise_to_{k}(xs) that returns a list of the larger of x and {k} for each x in xs":
            "[max(x, {k}) for x in xs]",
        "average_plus_{k}(xs) that returns the average of xs plus {k}": "sum(xs) / len(xs) + {k}",
        "sum_without_{k}(xs) that returns the sum of each x in xs that is not {k}":
            "sum(x for x in xs if x != {k})",
        "are_multiples_of_{k}(xs) that returns a list of True or False, is x a multiple of {k}, for each x in xs":
            "[x % {k} == 0 for x in xs]",
        "pairs_with_{k}(xs) that returns a list of (x, {k}) for each x in xs": "[(x, {k}) for x in xs]",
        "reverse_with_{k}(xs) that returns xs reversed plus a list of {k}": "xs[::-1] + [{k}]",
        "skip_by_{k}(xs) that returns every {k}th number of xs, beginning with the first": "xs[::{k}]",
        "range_above_{k}(xs) that returns True if the largest number minus the smallest in xs is above {k}":
            "max(xs) - min(xs) > {k}",
        "starting_with_{c}(words) that returns a list of the words that start with '{c}'":
            "[word for word in words if word.startswith('{c}')]",
        "shorter_than_{k}(words) that returns a list of the words with less than {k} letters":
            "[word for word in words if len(word) < {k}]",
        "put_{c}_before_each(words) that returns a list of '{c}' plus each word":
            "['{c}' + word for word in words]",
        "all_have_{c}(words) that returns True if all words have '{c}' in them":
            "all('{c}' in word for word in words)",
        "repeat_each_{k}(words) that returns a list of each word repeated {k} times":
            "[word * {k} for word in words]",
        "remove_{c}_from_each(words) that returns a list of each word without '{c}'":
            "[word.replace('{c}', '') for word in words]",
        "count_longer_than_{k}(words) that returns how many words have more than {k} letters":
            "sum(len(word) > {k} for word in words)",
        "last_{k}_of_each(words) that returns a list of the last {k} letters of each word":
            "[word[-{k}:] for word in words]",
        "total_length_plus_{k}(words) that returns the sum of the lengths of the words plus {k}":
            "sum(len(word) for word in words) + {k}",
    },
}  # fmt: skip


def chat(examples, prompt):
    """The turns of a chat that opens with these examples and ends with the prompt."""
    messages = []
    for question, answer in examples:
        messages.append({"role": "user", "content": question})
        messages.append({"role": "assistant", "content": answer})
    return [*messages, {"role": "user", "content": prompt}]


def work_out(x, steps):
    """Apply the steps (sign, number) to x from left to right.

    Returns the result and the calculation as the examples in the chat write it.
    """
    written = []
    for sign, y in steps:
        result = {"+": x + y, "-": x - y, "*": x * y}[sign]
        written.append(f"{x} {sign} {y} = {result}")
        x = result
    return x, f"{'. '.join(written)}. The answer is {x}."


def word_problems(file, rng, used):
    """Yield the problems of a file, one kind after the other. `used` holds the sums that were given out so far
    in any file; none of them is given out again."""
    kinds = list(WORD_KINDS[file].items())
    for number in range(PROBLEMS):
        family, (signs, text) = kinds[number % len(kinds)]
        lowest_x, highest_x, lowest_y, highest_y = SIZES[signs[0]]
        while True:
            x = rng.randint(lowest_x, highest_x)
            y = rng.randint(lowest_y, highest_y)
            z = rng.randint(2, 9)
            steps = tuple(zip(signs, (y, z)))
            result, solution = work_out(x, steps)
            if result > 0 and (x, steps) not in used:
                break
        used.add((x, steps))
        prompt = text.format(x=x, y=y, z=z, who=rng.choice(NAMES), things=rng.choice(THINGS))
        yield {
            "kind": "math",
            "family": family,
            "messages": chat(WORD_CHAT, prompt),
            "answer": str(result),
            "solution": solution,
        }


def example_inputs(parameter, k, letter, rng):
    """Ten values for a function's parameter. Some lie at the edge that k or the letter sets."""
    letters = [letter, *LETTERS]
    if parameter == "n":
        at_random = [rng.randint(-9, 60) for _ in range(5)]
        return [k, k + 1, k - 1, 3 * k, 0, *at_random]
    if parameter == "s":
        lengths = [1, k, k + 1, *rng.choices(range(2, 13), k=6)]
        texts = []
        for length in lengths:
            text = "".join(rng.choices([*letters, " "], k=length))
            texts.append(text + letter if length % 2 else text)
        return ["", *texts]
    if parameter == "words":
        lengths = [1, 2, *rng.choices(range(2, k + 5), k=8)]
        return [[random_word(k, letter, rng) for _ in range(length)] for length in lengths]
    numbers = [k, k, k + 1, k - 1, *range(-5, 15)]
    lengths = [1, 2, k + 2, *rng.choices(range(2, 9), k=7)]
    return [rng.choices(numbers, k=length) for length in lengths]


def random_word(k, letter, rng):
    """A word of up to k + 3 letters, which begins with `letter` in about half of the cases."""
    start = rng.choice(["", letter])
    return start + "".join(rng.choices([letter, *LETTERS], k=rng.randint(1, k + 2)))


def functions(file, rng):
    """Yield the problems of a file, one kind after the other, each with another number or letter.

    The asserts of a problem say what its reference solution returns.
    """
    kinds = list(FUNCTION_KINDS[file].items())
    used = set()
    while len(used) < PROBLEMS:
        text, body = kinds[len(used) % len(kinds)]
        family = text[: text.index("(")].format(k="k", c="c")
        k = rng.randint(2, 14)
        letter = rng.choice(LETTERS)
        text = text.format(k=k, c=letter)
        body = body.format(k=k, c=letter)
        if body in used:
            continue
        used.add(body)
        name, parameter = text[: text.index(")")].split("(")
        reference = eval(f"lambda {parameter}: {body}")
        asserts = []
        for value in example_inputs(parameter, k, letter, rng):
            asserts.append(f"assert {name}({value!r}) == {reference(value)!r}")
        yield {
            "kind": "code",
            "family": family,
            "messages": chat(FUNCTION_CHAT, f"Write a Python function {text}."),
            "tests": "\n".join(asserts),
            "entry_point": name,
            "solution": f"def {name}({parameter}):\n    return {body}",
        }


def main(args):
    args.out.mkdir(parents=True, exist_ok=True)
    used = set()
    for file in WORD_KINDS:
        write_file(args.out, file, word_problems(file, random.Random(file), used))
    for file in FUNCTION_KINDS:
        write_file(args.out, file, functions(file, random.Random(file)))


def write_file(folder, name, problems):
    lines = []
    for number, problem in enumerate(problems):
        lines.append(json.dumps({"id": f"{name}/{number}"} | problem) + "\n")
    (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=style)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder to write to")
    main(parser.parse_args())
