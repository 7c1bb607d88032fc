"""Maths answers: which are the same, which are not, which one a response gives, and what harms no judge.

A row of a table is a reference, and the answers or responses that are judged against it.
"""

import importlib
import random
import re
import time

import pytest
from conftest import python

judge = importlib.import_module("02_label")

# A reference and answers that are the same.
SAME = [
    # numbers
    (r"2\sqrt3", ["√12"]),
    ("10080", [r"10\,080"]),
    ("10{,}000", ["10 thousand"]),
    ("1,000,000", [r"1\text{ million}"]),
    (r"\frac{9}{11}", [r"0.\overline{81}"]),
    (r"\frac{270}7\text{ degrees}", ["38 4/7"]),
    (r"\sqrt[3]{2}", ["2^(1/3)"]),
    (r"\frac12", [r"\sin 30^\circ"]),
    (r"\sqrt{2}", [r"x = \sqrt{2} \approx 1.41"]),
    ("3.46", [r"x \approx 3.46"]),
    ("2 apples and 3 pears", ["3 pears and 2 apples", "2, 3", "2 apple, 3 pear"]),
    # words and choices
    (r"\text{(C)}", ["Option C"]),
    (r"\text{ellipse}", ["an ellipse"]),
    ("night", ["The opposite of 'day' is 'night'.", 'The opposite of "day" is "night".']),
    # units and bases
    (r"11\sqrt{3}", [r"11 \sqrt{3} \text{ units}^2"]),
    (r"\$18 per hour", [r"\$18"]),
    (r"60\text{ mph}", ["60 mi/h"]),
    (r"2.5\text{ hours}", ["2.5 h"]),
    ("52_8", ["52"]),
    ("12", [r"12^{\mathrm{th}}", "12th"]),
    # expressions and functions
    (r"\sin^2 x", [r"\frac{1-\cos 2x}{2}"]),
    ("x^2+2x+1", ["(x + 1)**2"]),
    (r"\theta=\tan^{-1}(\mu)", [r"\arctan{\mu}"]),
    ("|a-b|", ["|b-a|"]),
    (r"x = \frac{\pi}{4} + n\pi, n \in \mathbb{Z}", [r"n\pi + \pi/4, n \in \mathbb Z"]),
    # equations
    (r"\frac{\pi}{3}", [r"\arg z=\pi/3"]),
    ("y(t)=e^{-t}", [r"y(t) = \exp(-t)"]),
    ("5", ["a + b - c = 5", "|AB| = 5", "f(x) = 5", "A:B = 5", r"\lfloor 10x \rfloor = 5"]),
    # tuples, lists, sets and matrices
    (r"\{1,2,3\}", ["1, 2, and 3"]),
    ("AB=4, CD=5", ["4, 5"]),
    ("y_{1}=-2x^{2}+4x+3, y_{2}=3x^{2}", ["y_1=-2(x-1)^2+5, y_2=3x^2", "-2x^2+4x+3, 3x^2"]),
    (r"\pm\sqrt{3}", [r"x = \sqrt{3}\text{ and }x=-\sqrt{3}"]),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", [r"\begin{pmatrix}1.0&2\\\frac62&4\end{pmatrix}"]),
    # sets of real numbers
    (r"\emptyset", [r"\text{no solution}", r"\{\,\}"]),
    ("(0.6,2.6667]", [r"(\frac{3}{5},\frac{8}{3}]"]),
    (r"(-\infty,\infty)", [r"\text{all real numbers}"]),
    (r"\left(-\infty ;-\frac{1}{2}\right] \cup[3 ;+\infty)", [r"x \le -\frac12 \text{ or } x \ge 3"]),
    (r"\mathbb{R}\setminus\{0,1\}", [r"\mathbb{R} \setminus \{1, 0\}"]),
]

# A reference and answers that are not the same.
DIFFERENT = [
    # numbers
    (r"2\frac34", [r"2\cdot\frac34", "2(3/4)"]),
    ("3", [r"3\text{ dozen}", "3_4", "3_{5}", "three halves", "three-fifths"]),
    # words and choices
    ("A", ["A: 300"]),
    ("2", ["2abcd", "two-thirds", "2x = 2", r"x \ne 2"]),
    (r"\text{(C)}", ["(B) 12", r"\text{(C)} \text{ or } 77", "(C)^2"]),
    ("5", ["5 to 6", "5 hundredths", r"\pm 5", "log 5", "5:6"]),
    # units, bases and moduli
    (r"60\text{ mph}", ["60 ft/s", r"60 \text{ km/h}", "60 m/s"]),
    ("10 square units", ["10 weeks"]),
    ("3 hours", ["3 hours and 20 minutes", "3 days"]),
    (r"90^\circ", ["90 percent", r"\frac{\pi}{2}", r"90 \text{ rad}"]),
    (r"5\text{ cm}", ["5 inches", "5 cm/s", "5 dollars"]),
    (r"15\text{ cm}^2", [r"15 \text{ cm}^3", r"15 \text{ m}^2"]),
    (r"\$5", ["5 cents", "5¢"]),
    ("20", ["0.2", r"0.2\%"]),
    ("52_8", ["52_9", "25_8"]),
    (r"n \equiv 3 \pmod 7", ["n = 3", "3"]),
    # expressions and functions
    (r"\sin^2 x", [r"\sin 2x"]),
    ("f(x)+f(y)", ["f(x+y)"]),
    # equations, which are not their sides, and whose labels count
    ("(-\\infty,4)", ["2x<4"]),
    ("x=5", [r"x \ne 5", "y=5", "z = 5"]),
    ("y=2x+3", ["3", "x=2y+3", "f(x)=2y+3"]),
    ("10", ["2x=10", "x^2=10", "2x + 3y = 10", "x^2/4 + y^2/3 = 10"]),
    ("25", ["(x-1)^2 + (y+2)^2 = 25"]),
    ("x=1,y=2", ["x=2,y=1", "2,1"]),
    ("f(x)=x", ["f(f(x))=x", "f(2)=2"]),
    # tuples, lists, sets and matrices
    ("(1,2)", ["2,1"]),
    ("(1,2),(3,4)", ["1,2,3,4"]),
    ("(2,3)", ["2,3,4", "x=2"]),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", [r"\begin{vmatrix}1&2\\3&4\end{vmatrix}"]),
    # sets of real numbers
    (r"(-\infty,2)", [r"[-\infty,2)", r"(-\infty,2]"]),
    ("x<-1", [r"\{x : x < -1 \text{ or } x > 2\}"]),
    # a decimal is not endless, but for a rounded reference; arithmetic is exact
    (r"\frac{1}{3}", ["0.3333333333", "0.33"]),
    ("0.3", [r"\frac13", "0.33"]),
    ("10^{50}", ["10^{50}+1"]),
    ("0", ["e^{-200}", "10^{-1000}"]),
    ("262537412640768744", [r"e^{\pi\sqrt{163}}"]),
]

# A reference and responses that do not give it: each would be accepted without the rule above it.
GUARDS = [
    # a sign before the formula or the box
    (r"\pi/6", ["# Answer\n\n-$\\pi/6$", r"The angle is -$\frac{\pi}{6}$.", r"minus $\pi/6$"]),
    ("5", [r"$x=-\boxed{5}$", r"Hence $x = - \boxed{5}$.", r"So it is $–\boxed{5}$.", r"−\boxed{5}"]),
    # the reference does not choose the answer
    ("12", [r"The answer is $\frac{12}{5}$, where 12 is the numerator."]),
    ("C", ["The correct option is (A), not (C).", "答案是A，不是C。"]),
    # something else made of the number
    ("5", [
        "The answer is 5! ways.", "The answer is the reciprocal of 5.", "The answer is more than 5.",
        "The answer is $5$ million.", "The answer is 5 dozen.", "The answer is 5 thousandths.",
    ]),
    ("120", ["The answer is $5$!", "So there are $5$!", "The answer is **5**!"]),
    # a remark beside the answer
    ("14", ["15 (since 14 is too small)"]),
    # a number that is a part of something
    ("5", ["The answer is the 5th.", "On the 5th day.", "A 5-digit number.", "The answer is 5ab."]),
    ("2", ["The answer is 25cm.", "It is 25pi.", "#### 21ft"]),
]

# A reference and responses that give it.
GIVES = [
    # boxes
    ("5", [r"\boxed{5} \boxed{} \boxed{ }", r"$\boxed{\boxed{5}}$ and 7 more", r"$12-\boxed{5}$ is 7."]),
    ("12", [r"So we get \boxed{12", r"So we get \boxed 12 in 7 days.", r"\fbox{12} in 7 days"]),
    ("7", [r"<think>first \boxed{3}, hmm, so \boxed{7} and then it was cut off"]),
    ("720", [r"$6!=720$", r"\boxed{6!=720}", "There are 6!=720 ways."]),
    # lines that begin with a number, indices, an exclamation
    ("C", ["C", "C.", "**C.**", "`C`"]),
    # what a phrase announces
    (r"\text{(A)}", ["So the best choice is A."]),
    ("5", ["Hence the result equals $5$, because $1+1=2$."]),
    (r"\text{(D)}", [
        r"The correct choice is therefore $\textbf{(D)}$.", "The answer is (D), not (C).",
        "Answer: (D). Choice (C) would be correct if zero were allowed.",
    ]),
    (r"\text{(C)}", ["Therefore, option C is correct.", "It is not A. The correct choice is C."]),
    (r"\text{(B)}", [
        "Hence choice B is right.", "Hence option B is the best.", "The answer is (B). Option (A) is wrong.",
    ]),
    (r"\text{(A)}, \text{(C)}", ["The answer is (A) and (C)."]),
    ("5", [
        "The answer we are looking for is 5, not 7.", "The answer to $2x = 10$ is 5, not 7.",
        "The answer is 5. The result is 7 less than 12.", "The answer is 5, I think.",
        "<answer>5</answer> of 7", "The answer:\n\n- 5", "**Answer:** Two pens and 3 cups cost **5**.",
    ]),
    ("3,4", ["The answers are 3 and 4, which is to say, not 7."]),
    (r"\text{even}", [
        "The answer is even\n\nThank you", "**The answer is even.** Both are.",
        "The answer is even, as both are.", "The answer is even, so it is not odd.",
        "The answer is even, which is all.", r"The answer is even. So it is $\boxed{",
    ]),
    # a factorial
    ("28800", ["2 * 5! * 5!"]),
    ("n!", ["The answer is n! ways."]),
    # the same in Chinese
    ("5x-7=0", ["所以结果等于 $5x - 7 = 0$"]),
    (r"\text{(C)}", ["故选：C", "因此，选C。"]),
    # the last formula
    ("5", ["## Solution\n\n$2x = 10$, so $x = 5$.", "x = 5\n\n**Done:**", "Great! So it is 5!\nDone."]),
    (r"(2,\infty)", ["Adding all of this up, we see that x is in (2, infinity)."]),
    (r"\text{Monday}", ["So the day, counted from 7, is **Monday**."]),
    ("7", ["The remainder is 7 when divided by 11.", "Therefore, there are 7 such integers $n$."]),
    ("p-q", ["So we get p - q"]),
    ("25 cm", ["The answer is 25cm.", "It's 25cm", "AB=25cm", "#### 25 cm"]),
    (r"2\sqrt{3}\pi", ["So it's 2sqrt3pi.", "The answer's 2sqrt(3)pi."]),
    ("20", [
        "The 3 numbers that fit are 20.", "It is 20 if x = 3.", "There are 20 of them that have 3 digits.",
        "Perhaps the answer is 723. But then $x = 20$.", "So the answer is 723? No, then $x = 20$.",
    ]),
    ("1,4", [r"<answer> The solutions are $x \in \{1, 4\}$ </answer>"]),
    ("18", ["Janet earns $18/day.", "9 eggs * $2/egg = $18", "So she earns **$18**."]),
    ("(1,-1)", ["The solution is x = 1, y = -1."]),
    (r"\text{(D)}", ["Options (A), (B) and (C) can be eliminated, which leaves (D)."]),
    (r"\frac{1}{2}", ["So it is 1/2 = 0.5 = 50%."]),
    (r"|x-2| \ge 3", [r"The answer is |x−2| \ge 3."]),
    (r"3\sqrt{2}", ["Therefore the length is 3√2 cm.", "Therefore AB = 3 sqrt(2)."]),
    (r"(-\infty,2)\cup(3,\infty)", ["So $x<2$ or $x>3$."]),
    (r"\text{B}", ["I choose B.", "B. 12", "(B) 12"]),
    ("11", [r"Thus $\lfloor 100r \rfloor = 11$.", "we get 5 + 6 = 11 and are done."]),
    # several boxes that are one answer
    ("k = 45, n = 2", [r"\boxed{k = 45} \quad \text{and} \quad \boxed{n = 2}"]),
    ("3, 4", [
        r"$a_1 = \boxed{3}$, $a_{2} = \boxed{4}$", r"\boxed{3}\\ \boxed{4}",
        r"First: \boxed{3}, second: \boxed{4}", r"$\boxed{3}$ as well as $\boxed{4}$",
    ]),
    (r"\{-1\} \cup [0,7)", [r"$\boxed{\{-1\}} \cup \boxed{[0,7)}$", r"$\boxed{\{-1\} \cup [0,7)}$"]),
    # sums of money and formulas in one sentence
    ("10,455", ["10,200$ and 255$ make 10,455$.", "$10,200 and $255 make $10,455."]),
    ("255", [r"The answer is \$255.", "So she has $500 - $245 = $255 left."]),
    ("18", ["Janet makes 9 * $2 = $18 every day. The answer is $18.", "At $2 an egg, $x = 18$ dollars."]),
    ("8", ["$3 + $5 = $8", "$3 and $5 give $8$", "$3$ and $5$ give $8$."]),
]

# Several boxes of which the last one counts.
LAST_BOX = [
    ("6", [
        r"not $\boxed{5}$ but $\boxed{6}$", "$\\boxed{5}$\n\nFinal answer: $\\boxed{6}$",
        r"\boxed{5 is wrong, so $\boxed{6}$", r"It is \boxed{5}, corrected: \boxed{6}",
    ]),
]


def cases(table):
    """(reference, text) for each text of a table."""
    return [(reference, text) for reference, texts in table for text in texts]


def judged(reference, response):
    """(the answer found in a response, is it the same as the reference?)"""
    answer = judge.answer_of(response)
    return answer, answer is not None and judge.same(reference, answer)


def test_the_same():
    assert not [case for case in cases(SAME) if not judge.same(*case)]


def test_not_the_same():
    assert not [case for case in cases(DIFFERENT) if judge.same(*case)]


def test_none_and_numbers():
    """None is what answer_of finds in an empty response."""
    assert not judge.same("0.5", judge.answer_of("")) and not judge.same(None, None)
    assert judge.same("5 cm^2, 3 cm", "3 cm, 5 cm^{2}")
    assert judge.same(391, "391") and judge.same("0.5", 0.5) and not judge.same(391, "392")


def test_no_false_accepts():
    """Of the answer found in a text."""
    assert not [case for case in cases(GUARDS) if judged(*case)[1]]


@pytest.mark.parametrize("table", [GIVES, LAST_BOX])
def test_a_response_gives_its_answer(table):
    assert not [(*case, judged(*case)[0]) for case in cases(table) if not judged(*case)[1]]


CARRIERS = [  # sentences without a box; X is the answer
    "So it's X.", "That's X", "The answer is X.", "The answer's X.", "Answer: X", "**Answer:** X", "**X**", "#### X",
    "The final answer is **X**.", "Thus we get X.", "Hence the total is X, as wanted.", "Total: X", "Therefore: X",
    "The number of days when it rains is X.", "The number of rolls where both win is X.", "= X",
    "If all of them win, the value is X.", "The only value that works is X.", "It is X, since that fits.",
    "It is X because nothing else fits.", "So Ann's share is X.", "It equals X, where n is even.",
    "So they've got X left.", "The value is X if all is well.", "The solution is X, I think.", "The answer: X",
    "Let's see: the answer is X.", "So we are done, and the answer is just X.", "We can't do better than X.",
    "<answer>It's X.</answer>",
]  # fmt: skip
GLUED = ["Xcm", "Xkm^2", "#### X ft", "X apples", "Xpi", "Xsqrt2", "Xab", "X%", "$X", "X/day", "X miles per hour",
         "the Xth day", "X-digit", "X's place", "Xam"]  # fmt: skip


def test_a_sentence_gives_its_number_or_none():
    """In dollars each reference is found; as text it is found or none is; and no number is ever cut."""
    references = sorted({reference for reference, _ in SAME} | {*REFERENCES})
    for carrier in CARRIERS:
        found = [(reference, judge.answer_of(carrier.replace("X", f"${reference}$"))) for reference in references]
        assert not [pair for pair in found if not judge.same(*pair)], carrier
        for reference in ["0.15", "1,234", "36", "\\frac{3}{4}", "x = 5", "[2,7)", "3\\sqrt{13}", "5x - 7y = 4"]:
            answer = judge.answer_of(carrier.replace("X", reference))
            assert answer is None or judge.same(reference, answer), (carrier, reference, answer)
        for glued in GLUED:
            answer = judge.answer_of(carrier.replace("X", glued.replace("X", "3614")))
            assert answer is None or re.search("(?<!\\d)3614(?!\\d)", answer), (carrier, glued, answer)


@pytest.mark.parametrize("response, answer", [
    ("So x is 5 since it fits.", "5"),
    ("So we need a 2 1/2-inch pipe.", None), ("So it's 10 × 12-inch.", "So it's 10 × 12-inch"),
    ("He runs 80 miles in", "80 miles"), ("The answer is: even.", "even"), ("答案是12。", "12"),
    ("The answer is 3 hours and 20 minutes.", "3 hours and 20 minutes"),
    ("So it took her 3 hours 20 minutes.", "3 hours 20 minutes"),
    ("Answer: Tom has 3 apples and 5 pears.", "3 apples and 5 pears"),
    ("", None), ("<think>", None), ("<think>it is 5", None), ("<|im_end|>", None),
    (r"The answer is \boxed{}.", None), ("I do not know what they want me to do.", None)])  # fmt: skip
def test_an_answer_is_given_without_what_surrounds_it(response, answer):
    """Two quantities are one answer, and no answer is None."""
    assert judge.answer_of(response) == answer


def test_boxes_that_are_not_joined_give_one_answer():
    assert not [text for _, text in cases(LAST_BOX) if judged("5, 6", text)[1]]


@pytest.mark.parametrize("prose", [
    "So $\\boxed{%s}$ is it, for 3 reasons.", "Final Answer: The final answer is $%s$. I hope it is correct.",
    "We get\n$$%s$$", "2+2=4\n#### %s", "<think>3</think>\n**Answer:** $%s$",
    "Therefore, the answer is \\(%s\\)"])  # fmt: skip
def test_prose_changes_no_verdict(prose):
    """Every pair of the tables once more, within a response; but 2x if x > 0, as a sentence, gives 2x."""
    for table, same in ((SAME, True), (DIFFERENT, False)):
        plain = [case for case in cases(table) if not re.search(r"oxed|\*\*|\$|\bif\b|4pt", case[1])]
        assert not [case for case in plain if judged(case[0], prose % case[1])[1] is not same]


# What makes something else of a reference R.
MUTATIONS = [
    r"\text{not } R", r"\text{at least } R", r"R \text{ if } x > 0", r"R \text{ or } 77", "R, 77",
    r"\sqrt{R + 1}", "(R)i + 1", "x > R", "R + 1", r"R \text{ million}", "[R, 0)", "(R)^2 + 3", "R + z",
    "R_{17}",
]
REFERENCES = [
    "5", "-3", "0.15", r"\frac{3}{4}", r"3\sqrt{13}", r"\frac{\pi}{2}", "6-5i", "x^2+3x-6",
    r"(3, \frac{\pi}{2})", "1,-2", "[2,7)", r"(-\infty, 2) \cup (3, \infty)", r"1 \pm \sqrt{19}",
    r"\{1, 2, 3\}", r"90^\circ", r"\$18.90", r"20\%", "y = 2x + 3", r"\text{even}",
    r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", r"\text{(C)}", "2k+2", r"\cot x", r"15\text{ cm}^2", "58,500",
    "52_8", r"x \in [-2,7]", r"\log_2 3", r"137 \frac{1}{2}", "5x - 7y + 11z = 4",
]


def near_misses(reference):
    yield from (mutation.replace("R", reference) for mutation in MUTATIONS)
    yield re.sub(r"\d", lambda m: str((int(m[0]) + 1) % 10), reference, count=1)
    yield re.sub(r"\d+", lambda m: m[0] + "1", reference, count=1)
    sign = f"{reference} - 1" if re.search("[,=]", reference) else f"-{reference}"
    yield reference.replace("-", "", 1) if "-" in reference else sign


def test_near_misses_of_references():
    """References of every kind, each mutated in every way."""
    misses = [(reference, text) for reference in REFERENCES for text in near_misses(reference)]
    assert len(misses) > 500 and not [miss for miss in misses if miss[0] != miss[1] and judge.same(*miss)]


def test_the_reference_may_be_prose():
    assert judge.same("The roots are $x = \\boxed{2}$ and $x = \\boxed{3}$.", "3, 2")
    prose = "So the final answer is $\\frac{1}{2}$."
    assert judge.same(prose, "0.5") and not judge.same(prose, "2")


def test_groups():
    """The same in any order, without a chain from 20 over 20% to 0.2 or from (1, 2) over 1, 2 to (2, 1)."""
    wanted = [
        ["1", "1.0", r"\frac{2}{2}", "x=1"], ["2", r"\sqrt4"], ["1/3"], ["0.33"], ["0.333333"],
        ["1,2", r"\{2,1\}"], ["(1,2)"], ["(2,1)"], ["x>2", r"(2,\infty)"], [r"20\%", "20"], ["0.2"],
        ["5", "x=5", "x = 5.0"], ["9^{9^9}"], ["who knows", "Who knows."],
    ]  # fmt: skip
    answers = [answer for group in wanted for answer in group]
    for seed in range(20):
        shuffled = random.Random(seed).sample(answers, len(answers))
        numbers = judge.groups_of([*shuffled, None])
        assert numbers.pop() is None and [*dict.fromkeys(numbers)] == list(range(len(wanted)))
        classes = {frozenset(a for a, m in zip(shuffled, numbers) if m == n) for n in numbers}
        assert classes == {*map(frozenset, wanted)}


HOPELESS = [  # huge numbers, deep and long formulas, long prose, and what no formula should hold
    "9^{9^{9}}", r"\pi^{\pi^{\pi^{\pi^{\pi^\pi}}}}", "1e999999999", "1000!!!!", "9" * 1_000_000,
    r"\binom{10^9}{5\cdot10^8}", r"\sin(10^{10000})", r"0.\overline{" + "3" * 300 + "}", r"\pm 1" * 100,
    "1" + "=1" * 190, "(" * 100_000 + "1" + ")" * 100_000, "f(" * 190 + "x" + ")" * 190,
    r"\frac{1}{" * 100_000 + "2" + "}" * 500, r"\sqrt{" * 38 + "2" + "}" * 38, "x" + "^x" * 190,
    "+".join(rf"\sqrt{{{n}}}" for n in range(2, 99)), "".join(f"(x+{n})" for n in range(2, 99)),
    "+".join(f"x^{{{n}}}" for n in range(9000, 9099)), r"\{" + ",".join(map(str, range(190))) + r"\}",
    "x is " * 12 + "the reciprocal of $5$", "is 5 " * 9000, "$1$, " * 50_000, "the answer is " * 50_000,
    "x" + "\n" * 300_000 + ")", "\\boxed{" * 10_000 + "5" + "}" * 10_000, "\\(" * 100_000, "$" * 100_000,
    "\\" * 100_000, "\ud800", "x_\ud800 + 1", "\0" * 1000, "②" * 500, "٣" * 300,
    r"\begin{array}{c}\end{array}", r"\infty<\{1,2\}", r"m\in[3,x=5", r"\mathbb{R}^2", r"\det 3", "3x%",
]  # fmt: skip


@pytest.mark.parametrize("text", HOPELESS, ids=range(len(HOPELESS)))
def test_never_hangs(text):
    """Sizes are limited, not seconds, so that no verdict depends on how busy the machine is."""
    five = {"kind": "math", "prompt": "Compute it.", "answer": "5"}
    for form in ("%s", "$\\boxed{%s}$", "The answer is %s"):
        start = time.process_time()
        answer = judge.answer_of(form.replace("%s", text))
        judge.groups_of([answer, "5", "(B)", "x>2"])
        accepted = answer is not None and judge.verdict(five, answer)[0]
        assert time.process_time() - start < 0.5  # 20 ms on a quiet machine, on which 50 are the goal
        assert not accepted or re.fullmatch(r"[\\boxed{]*5}*", answer), answer


def test_random_formulas_raise_nothing():
    """2,000 here; other seeds are worth a try after a change of the parser."""
    parts = re.findall(r"\S+", r"""
        \frac \sqrt { } ( ) [ ] \{ \} 1 2 10 0 0.5 x n i e \pi \infty + - * / ^ _ ! % = < \le \ne \in , ; : |
        \cup \setminus \mathbb{R} \pm \begin{pmatrix} \end{pmatrix} & \\ \text{cm} \text{if} million half ° '
        \sin \ln \log_2 \binom ② ½ ² √ f( and or $ ** 1,000 5% \sum_{k=1}^{3} \sec^{-1}""")
    for seed in range(2000):
        rng = random.Random(seed)
        text = rng.choice(["", " "]).join(rng.choices(parts, k=rng.randint(1, 12)))
        judge.answer_of(f"The answer is {text}.")
        judge.same(text, "5")
        judge.same(rng.choice(["(1,2)", "x>2", "20\\%", "\\{1,2\\}", "x=5"]), text)


def test_no_text_is_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for text in ("__import__('os').mkdir('x')", "open('x','w')", "().__class__", "lambda: 0"):
        judge.same("1", text)
        judge.same(text, f"\\text{{{text}}}")
    assert not list(tmp_path.iterdir())


def test_no_big_package_is_needed():
    program = """if True:
        import sys, importlib
        judge = importlib.import_module("02_label")
        judge.groups_of(["1/2", "\\\\sqrt2", "(1,2)", "x^2-1", "10,080"])
        assert not {"sympy", "mpmath", "torch"} & set(sys.modules), "imported"
    """
    assert python(program).returncode == 0
