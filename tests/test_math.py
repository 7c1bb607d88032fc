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
    ("10^{-3}", ["10^-3"]),
    ("6", [r"2 \cdot 3 = 6", "1+2+3"]),
    ("10080", [r"10\,080"]),
    ("10{,}000", ["10 thousand"]),
    ("1,000,000", [r"1\text{ million}"]),
    (r"\frac13", [r"33\frac13\%"]),
    (r"\frac{9}{11}", [r"0.\overline{81}"]),
    (r"\frac{270}7\text{ degrees}", ["38 4/7"]),
    (r"p=\frac14", [r"25\%"]),
    (r"\sqrt[3]{2}", ["2^(1/3)"]),
    ("0", [r"\sqrt{8}-2\sqrt{2}"]),
    (r"\frac12", [r"\sin 30^\circ"]),
    (r"\pm 2", [r"\mp2"]),
    (r"\sqrt{2}", [r"x = \sqrt{2} \approx 1.41"]),
    ("3.46", [r"x \approx 3.46"]),
    ("2 apples and 3 pears", ["3 pears and 2 apples", "2, 3", "2 apple, 3 pear"]),
    # words and choices
    ("300", ["A: 300"]),
    ("12", [r"\textbf{(C)}\ 12"]),
    (r"\text{(C)}", ["Option C"]),
    (r"\text{(B)}", [r"\boxed{B}"]),
    (r"\text{the parabola}", ["a parabola"]),
    (r"\text{ellipse}", ["an ellipse"]),
    ("night", ["The opposite of 'day' is 'night'.", 'The opposite of "day" is "night".']),
    ("5", [r"\text{the area is } 5"]),
    # units and bases
    ("5 pears, 3 apples", ["3 apples and 5 pears"]),
    ("5 cm, 3 cm", ["3 cm and 5 cm"]),
    (r"90^\circ", [r"\angle ABC = 90^\circ"]),
    ("16", [r"m\angle A = 16^\circ"]),
    ("25", [r"25^\circ\text{C}"]),
    (r"11\sqrt{3}", [r"11 \sqrt{3} \text{ units}^2"]),
    (r"\$18 per hour", [r"\$18"]),
    (r"60\text{ mph}", ["60 mi/h"]),
    (r"150\text{ grams}", ["150 g"]),
    (r"2.5\text{ hours}", ["2.5 h"]),
    ("52_8", ["52"]),
    ("12", [r"12^{\mathrm{th}}", "12th"]),
    (r"n\equiv 3\pmod 7", [r"n\equiv 3\pmod{7}"]),
    # expressions and functions
    (r"\sin^2 x", [r"\frac{1-\cos 2x}{2}"]),
    (r"\cot x", [r"\frac{1}{\tan x}"]),
    ("x^{2+y}", ["x^2x^y"]),
    ("x^2-1", ["f(x)=(x-1)(x+1)"]),
    ("x^2+2x+1", ["(x + 1)**2"]),
    ("a^2-b^2", ["(a+b)(a-b)"]),
    (r"\theta=\tan^{-1}(\mu)", [r"\arctan{\mu}"]),
    ("|a-b|", ["|b-a|"]),
    (r"\lfloor n/2 \rfloor", [r"\left\lfloor \frac n2 \right\rfloor"]),
    (r"x = \frac{\pi}{4} + n\pi, n \in \mathbb{Z}", [r"n\pi + \pi/4, n \in \mathbb Z"]),
    # equations
    ("2", [r"x+1=3 \Rightarrow x=2"]),
    (r"\frac{\pi}{3}", [r"\arg z=\pi/3"]),
    ("y(t)=e^{-t}", [r"y(t) = \exp(-t)"]),
    ("5", ["a + b - c = 5", "|AB| = 5", "f(x) = 5", "A:B = 5", r"\lfloor 10x \rfloor = 5"]),
    # tuples, lists, sets and matrices
    ("(6,31,-1)", ["6,31,-1"]),
    (r"\{1,2,3\}", ["1, 2, and 3"]),
    ("-2,1", ["x=1 or -2"]),
    (r"\{5\}", ["x=5"]),
    ("3,-3", ["x = ±3"]),
    ("AB=4, CD=5", ["4, 5"]),
    ("y_{1}=-2x^{2}+4x+3, y_{2}=3x^{2}", ["y_1=-2(x-1)^2+5, y_2=3x^2", "-2x^2+4x+3, 3x^2"]),
    ("x=1,y=2", [
        r"\begin{cases}x=1\\y=2\end{cases}", r"\left\{\begin{aligned} x&=1\\ y&=2\end{aligned}\right.",
    ]),
    (r"\left\{\begin{array}{l}x=1 \\ y=2\end{array}\right.", ["(1,2)"]),
    (r"k=\frac{1}{4}\text{ or }k=-1", [r"-1,\frac14"]),
    (r"\{1,-2\}", [r"x = -2\text{ and }x = 1"]),
    (r"\{(1,2),(3,4)\}", [r"(3,4) \text{ and } (1,2)"]),
    (r"\pm\sqrt{3}", [r"x = \sqrt{3}\text{ and }x=-\sqrt{3}"]),
    (r"2\pm i", [r"x=2 \pm i"]),
    (r"m=-3 \text{ or } m=1", [r"m \in \{-3,1\}"]),
    (r"\begin{pmatrix} -1/3 \\ 2/3 \\ 5/3 \end{pmatrix}", [
        "(-1/3,2/3,5/3)", r"\begin{pmatrix}-1/3\\[4pt]2/3\\[4pt]5/3\end{pmatrix}",
    ]),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", [r"\begin{pmatrix}1.0&2\\\frac62&4\end{pmatrix}"]),
    # sets of real numbers
    (r"\emptyset", [r"\text{no solution}", r"\{\,\}"]),
    ("(0.6,2.6667]", [r"(\frac{3}{5},\frac{8}{3}]"]),
    (r"(-\infty,\infty)", [r"\text{all real numbers}"]),
    (r"\left(-\infty ;-\frac{1}{2}\right] \cup[3 ;+\infty)", [r"x \le -\frac12 \text{ or } x \ge 3"]),
    (r"\mathbb{R}\setminus\{2\}", [r"\mathbb{R} - \{2\}"]),
    (r"\mathbb{R}\setminus\{0,1\}", [r"\mathbb{R} \setminus \{1, 0\}"]),
    (r"[2,\infty)\cup\{0\}", [r"x \ge 2 \text{ or } x = 0"]),
]

# A reference and answers that are not the same.
DIFFERENT = [
    # numbers
    ("1{,}000", ["1,00"]),
    ("12,345", ["12,3,45"]),
    (r"\frac13", [r"\frac13\%", "0.34"]),
    (r"0.\overline{3}", ["3"]),
    (r"3\frac12", [r"3, \frac12"]),
    (r"2\frac34", [r"2\cdot\frac34", "2(3/4)"]),
    ("2+3i", ["2+3j"]),
    (r"\infty", [r"\frac{1}{\infty}"]),
    ("3", [r"3\text{ dozen}", "3_4", "3_{5}", "three halves", "three-fifths"]),
    # words and choices
    ("A", ["A: 300"]),
    ("2", ["2abcd", "two-thirds", "2x = 2", r"x \ne 2"]),
    (r"\text{(C)}", ["(B) 12", r"\text{(C)} \text{ or } 77", "(C)^2"]),
    (r"\text{(B)}", ["(B) or (C)", "B'"]),
    ("A,C", ["C"]),
    ("5", ["5 to 6", "5 hundredths", r"\pm 5", "log 5", "5:6"]),
    (r"6:30\text{ p.m.}", [r"6:30\text{ a.m.}"]),
    (r"\text{even}", ["not even", "neither even nor odd"]),
    # units, bases and moduli
    (r"60\text{ mph}", ["60 ft/s", r"60 \text{ km/h}", "60 m/s"]),
    (r"5\text{ m/s}", ["5 kph"]),
    (r"5\text{ square feet}", ["5 ft^3 / 2"]),
    (r"150\text{ grams}", ["150 m"]),
    ("5m", ["5"]),
    ("10 square units", ["10 weeks"]),
    ("10 cm", ["10 cm^2"]),
    ("3 hours", ["3 hours and 20 minutes", "3 days"]),
    (r"90\%", ["90 cm", "90 degrees"]),
    (r"90^\circ", ["90 percent", r"\frac{\pi}{2}", r"90 \text{ rad}"]),
    (r"5\text{ cm}", ["5 inches", "5 cm/s", "5 dollars"]),
    (r"15\text{ cm}^2", [r"15 \text{ cm}^3", r"15 \text{ m}^2"]),
    (r"\$5", ["5 cents", "5¢"]),
    ("20", ["0.2", r"0.2\%"]),
    ("52_8", ["52_9", "25_8"]),
    (r"n \equiv 3 \pmod 7", ["n = 3", "3"]),
    # expressions and functions
    (r"\sin^2 x", [r"\sin 2x"]),
    ("n!", ["n!!"]),
    ("x", [r"\sqrt{x^2}"]),
    ("a_1", ["a1"]),
    (r"\frac{1}{x+1}", ["x+1"]),
    (r"\binom n3", ["P(n,3)"]),
    (r"\log_2 3", [r"\log 2^3"]),
    (r"\log(ab)", [r"\log(a+b)"]),
    ("f(x)+f(y)", ["f(x+y)"]),
    ("2x", ["2x if x>0, -2x if x<0"]),
    (r"\frac{\pi}{4}+k\pi, k\in\mathbb{Z}", [r"\frac{\pi}{4}+2k\pi"]),
    # equations, which are not their sides, and whose labels count
    (r"\frac{NO}{BO}=3", [r"-\frac{NO}{BO}=3"]),
    ("(-\\infty,4)", ["2x<4"]),
    ("x=5", [r"x \ne 5", "y=5", "z = 5"]),
    ("y=x^2", ["y=-x^2"]),
    ("x+y=3", ["x+y"]),
    ("y=2x+3", ["3", "x=2y+3", "f(x)=2y+3"]),
    ("10", ["2x=10", "x^2=10", "2x + 3y = 10", "x^2/4 + y^2/3 = 10"]),
    ("25", ["(x-1)^2 + (y+2)^2 = 25"]),
    ("(x-1)(x-2)=0", ["(x-1)(x-3)=0"]),
    ("f(x)=0, f(x)=x", ["f(x)=0,f(x)=2x"]),
    ("x+1", ["x+1 = 0", "2x+2=0"]),
    ("5x-7y+4=0", ["0", "5x-7y+4", "5x-7y-4=0"]),
    ("x=1,y=2", ["x=2,y=1", "2,1"]),
    ("f(x)=x", ["f(f(x))=x", "f(2)=2"]),
    # tuples, lists, sets and matrices
    (r"\{1,-2\}", [r"x=1 \text{ or } x=2"]),
    ("a=1, b=2, c=3", ["(3,2,1)"]),
    (r"\frac{2}{3}", ["(2,3)"]),
    ("(1,2)", ["2,1"]),
    ("(1,2),(3,4)", ["1,2,3,4"]),
    ("1,-2", ["(-2,1)"]),
    (r"1,2,3,\ldots", ["1,2,3,4", "1,2,3"]),
    ("(2,3)", ["2,3,4", "x=2"]),
    (r"A \cup B", ["A", r"B \setminus A"]),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", [r"\begin{vmatrix}1&2\\3&4\end{vmatrix}"]),
    # sets of real numbers
    (r"(0,1)\cup(1,\infty)", [r"x\ne1"]),
    (r"(-\infty,2)", [r"[-\infty,2)", r"(-\infty,2]"]),
    (r"x\ge1 \text{ or } x\le -1", [r"-1\le x\le 1"]),
    ("x<-1", [r"\{x : x < -1 \text{ or } x > 2\}"]),
    # a decimal is not endless, but for a rounded reference; arithmetic is exact
    (r"\frac{1}{3}", ["0.3333333333", "0.33"]),
    (r"\sqrt{2}+\sqrt{3}", ["3.14626436994197", "3.146"]),
    ("0.3", [r"\frac13", "0.33"]),
    ("10^{50}", ["10^{50}+1"]),
    ("0", ["e^{-200}", "10^{-1000}"]),
    ("262537412640768744", [r"e^{\pi\sqrt{163}}"]),
]

# A reference and responses that do not give it: each would be accepted without the rule above it.
GUARDS = [
    # a sign before the formula or the box
    (r"\pi/6", ["# Answer\n\n-$\\pi/6$", r"The angle is -$\frac{\pi}{6}$.", r"minus $\pi/6$"]),
    ("5", ["The answer is: –$5$", "The value is minus $5$."]),
    ("5", [
        r"$x=-\boxed{5}$", r"Hence $x = - \boxed{5}$.", r"So it is $–\boxed{5}$.", r"−\boxed{5}",
        r"The sum:-\boxed{5}", r"(-\boxed{5})", "So it is - 5.",
    ]),
    # the reference does not choose the answer
    ("12", [
        r"The result is 12 for the first part. So the answer is $\frac{x}{2}$.",
        r"The answer is $\frac{12}{5}$, where 12 is the numerator.",
    ]),
    ("C", [
        "The answer is (B), since (C) is impossible.", "The correct option is (A), not (C).", "答案是A，不是C。",
    ]),
    ("5", ["So x = 5.\n\nBut wait, checking it: x = 6.", "Let it be 5. **Answer:** It is **even**."]),
    # something else made of the number
    ("5", [
        "The answer is 5! ways.", "The answer is the reciprocal of 5.", "The answer is the 5th prime.",
        "The answer is not 5.", "The answer is more than 5.", "The answer is pi over 5.",
        "The answer is $5$ million.", "The answer is 5 dozen.", r"\boxed{5 \text{ thousand}}",
        r"\boxed{5 \text{ if } x > 0}", "The answer is 5 thousandths.",
        "Answer: Tom has 3 apples and 5 pears",
    ]),
    ("2 * 5!", ["2 * 5! * 5!"]),
    ("120", ["The answer is $5$!", "So there are $5$!", "The answer is **5**!"]),
    # a remark beside the answer
    ("14", ["15 (since 14 is too small)"]),
    ("-3", ["x1 = 3, x2 = -3"]),
    # a number that is a part of something
    ("5", ["The answer is the 5th.", "On the 5th day.", "A 5-digit number.", "The 5's place.", "The answer is 5ab."]),
    ("2", ["The answer is 25cm.", "It is 25pi.", "#### 21ft"]),
]

# A reference and responses that give it.
GIVES = [
    # boxes
    ("5", [r"\boxed{5} \boxed{} \boxed{ }", r"$\boxed{\boxed{5}}$ and 7 more", r"$12-\boxed{5}$ is 7."]),
    ("12", [r"So we get \boxed{12", r"So we get \boxed 12 in 7 days.", r"\fbox{12} in 7 days"]),
    ("2,3", [r"First \boxed{7} is a mistake; the roots are \boxed{2} and \boxed{3}."]),
    ("7", [r"<think>first \boxed{3}, hmm, so \boxed{7} and then it was cut off"]),
    ("(2,3)", [r"$x = \boxed{2}$, $y = \boxed{3}$"]),
    ("11", [r"The answer is \boxed{\ 11\ }."]),
    ("9", [
        r"$\boxed{9}$. To double-check the final answer, plug in x = 2.",
        r"$\boxed{9}$. So the answer is 6 more than 3.", r"The final answer is 7? Corrected: $\boxed{9}$",
        r"\boxed{9} is the final answer. The result is 6 more than 3.",
    ]),
    ("720", [r"$6!=720$", r"\boxed{6!=720}", "There are 6!=720 ways."]),
    # lines that begin with a number, indices, an exclamation
    ("5", ["Step 3: x = 5.", "Case 2: $n = 5$.", "The answer is $5$!", "The answer is **5**!"]),
    ("C", ["C", "C.", "**C.**", "`C`"]),
    # what a phrase announces
    (r"\text{(A)}", ["So the best choice is A."]),
    ("42", ["The final answer is 42!"]),
    ("5", ["Hence the result equals $5$, because $1+1=2$."]),
    ("2x + 4y + z - 19 = 0", [
        "Final Answer: The final answer is $2x + 4y + z - 19 = 0$. I hope it is correct.",
    ]),
    ("54", ["So the final answer would be 54, I guess?"]),
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
        "<answer>5</answer> of 7", r"\text{Answer: }5, not 7", "The answer:\n\n- 5",
        "The answer is 5! We are done.",
        "**Answer:** Two pens and 3 cups cost **5**.",
    ]),
    ("3,4", ["The answers are 3 and 4, which is to say, not 7."]),
    (r"\text{even}", [
        "The answer is even\n\nThank you", "**The answer is even.** Both are.",
        "The answer is even, as both are.", "The answer is even, so it is not odd.",
        "The answer is even, which is all.", r"The answer is even. So it is $\boxed{",
    ]),
    # a factorial
    ("120", ["The answer is 5! ways.", "There are 5! of them."]),
    ("28800", ["2 * 5! * 5!"]),
    ("n!", ["The answer is n! ways."]),
    # the same in Chinese
    ("12", ["一共需要 12 小时。"]),
    ("5x-7=0", ["所以结果等于 $5x - 7 = 0$"]),
    (r"\text{(C)}", ["故选：C", "因此，选C。"]),
    # the last formula
    ("5", ["## Solution\n\n$2x = 10$, so $x = 5$.", "x = 5\n\n**Done:**", "Great! So it is 5!\nDone."]),
    ("5", ["Adding all of this up, we see that it is (5)."]),
    ("x<y", ["Adding all of this up, we see that x < y."]),
    (r"(2,\infty)", ["Adding all of this up, we see that x is in (2, infinity)."]),
    (r"\text{Monday}", ["So the day, counted from 7, is **Monday**."]),
    ("204", [r"Therefore, $m+n=101+103=\mathbf{204}$."]),
    ("2,3", ["Hence $x=2$ or $x=3$ are the solutions."]),
    (r"90^\circ", [r"The total is $90^\circ$ in all.", "∠ABC = 90°"]),
    ("7", [
        "Tom is 7 years old.", "She needs 7 more minutes to finish.",
        "The remainder is 7 when divided by 11.", "Therefore, there are 7 such integers $n$.",
    ]),
    ("12", ["The smallest such number is 12, since 7 is odd."]),
    ("p-q", ["So we get p - q"]),
    ("73", ["m + n = 65 + 8 = 73."]),
    ("25 cm", ["The answer is 25cm.", "It's 25cm", "AB=25cm", "#### 25 cm"]),
    (r"2\sqrt{3}\pi", ["So it's 2sqrt3pi.", "The answer's 2sqrt(3)pi."]),
    ("20", [
        "We get 5. The number of rolls where both win is $20$.", "The number of days when it rains is 20.",
        "The 3 numbers that fit are 20.", "It is 20 if x = 3.", "There are 20 of them that have 3 digits.",
        "Maybe the answer is 723? No: $x = \\mathbf{20}$.", "Perhaps the answer is 723. But then $x = 20$.",
        "So the answer is 723? No, then $x = 20$.",
    ]),
    ("1,4", [r"<answer> The solutions are $x \in \{1, 4\}$ </answer>"]),
    (r"\text{a prime}", ["It is 7. <answer>a prime</answer>"]),
    ("18", ["Janet earns $18/day.", "9 eggs * $2/egg = $18", "So she earns **$18**."]),
    ("(1,-1)", ["The solution is x = 1, y = -1."]),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", [r"So $\mathbf{v} = \begin{pmatrix} 1 \\ 2 \end{pmatrix}.$"]),
    ("42", [
        r"$n = 42. \quad \blacksquare$",
        "\\begin{align*}\nx &= 6 \\cdot 7 \\\\\n&= 42.\n\\end{align*}",
    ]),
    (r"\text{(D)}", ["Options (A), (B) and (C) can be eliminated, which leaves (D)."]),
    (r"\frac{1}{2}", ["So it is 1/2 = 0.5 = 50%."]),
    (r"|x-2| \ge 3", [r"The answer is |x−2| \ge 3."]),
    (r"2\sqrt{5}", ["d = sqrt(20) = 2*sqrt(5)"]),
    ("1,3", ["The solutions are $1$ and $3$.", "The solutions to the equation are $x = 1$ and $x = 3$."]),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", [
        "The inverse is\n\\[\n\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}.\n\\]",
    ]),
    (r"2\pi", ["Its area equals 2π square units."]),
    ("16", [r"So we have $\frac{m}{n} = \frac{7}{9}$, hence $m+n = 7+9 = 16$."]),
    (r"\frac{7}{9}", [r"So we have $P = \frac{14}{18} = \frac{7}{9}$."]),
    (r"3\sqrt{2}", ["Therefore the length is 3√2 cm.", "Therefore AB = 3 sqrt(2)."]),
    (r"(-\infty,2)\cup(3,\infty)", ["So $x<2$ or $x>3$."]),
    ("17", ["Therefore, $a + b = 17$, where $a = 8$ and $b = 9$."]),
    (r"\text{B}", ["I choose B.", "B. 12", "(B) 12"]),
    ("4:30", ["4:30", "It starts at 4:30."]),
    ("11", [
        "It leaves 11 eggs left over after lunch.", r"Thus $\lfloor 100r \rfloor = 11$.",
        "we get 5 + 6 = 11 and are done.",
    ]),
]

# Several boxes that are one answer.
JOINED_BOXES = [
    ("-2, 1", [r"$\boxed{-2} \quad \text{and} \quad \boxed{1}$"]),
    ("(2, 2), (6, 2)", [r"\boxed{(2, 2)} \quad \text{and} \quad \boxed{(6, 2)}"]),
    ("k = 45, n = 2", [r"\boxed{k = 45} \quad \text{and} \quad \boxed{n = 2}"]),
    ("x^2, x^3", [r"\( y_1 = \boxed{x^2} \) and \( y_2 = \boxed{x^3} \)"]),
    ("3, 4", [
        r"The answers are $\boxed{3}$ for part (a) and $\boxed{4}$ for part (b).",
        "(a) $\\boxed{3}$\n(b) $\\boxed{4}$", "Part (a): $\\boxed{3}$\n\nPart (b): $\\boxed{4}$",
        "1. $\\boxed{3}$\n2. $\\boxed{4}$", r"\[\boxed{3}, \quad \boxed{4}\]",
        r"$\alpha=\boxed{3}$ and $\beta=\boxed{4}$", r"$a_1 = \boxed{3}$, $a_{2} = \boxed{4}$",
        r"\boxed{3}\\ \boxed{4}", r"\begin{aligned} x &= \boxed{3} \\ y &= \boxed{4} \end{aligned}",
        r"First: \boxed{3}, second: \boxed{4}",
        r"$\boxed{3}$ as well as $\boxed{4}$", r"$\boxed{3}$、$\boxed{4}$", r"$\boxed{3}$ 和 $\boxed{4}$",
    ]),
    ("3, 4, 5", [
        r"$\boxed{3}$, $\boxed{4}$, and $\boxed{5}$", r"$\boxed{3},\ \boxed{4},\ \text{and}\ \boxed{5}$",
    ]),
    (r"\{-1\} \cup [0,7)", [r"$\boxed{\{-1\}} \cup \boxed{[0,7)}$", r"$\boxed{\{-1\} \cup [0,7)}$"]),
    (r"[0,7) \cup \{-1\}", [r"$\boxed{\{-1\} \cup [0,7)}$"]),
    (r"(-\infty,1) \cup (2,3)", [r"\[\boxed{(-\infty, 1)} \quad \cup \quad \boxed{(2, 3)}\]"]),
]

# Several boxes of which the last one counts.
LAST_BOX = [
    ("6", [
        r"not $\boxed{5}$ but $\boxed{6}$", r"So $\boxed{5}$. Wait, that is wrong: $\boxed{6}$",
        r"\boxed{5} \text{ is too small, so } \boxed{6}", r"\boxed{5} \Rightarrow \boxed{6}",
        r"The radius is $\boxed{5}$, so the sum is $\boxed{6}$.",
        "$\\boxed{5}$\n\n**Correction:** $\\boxed{6}$", "$\\boxed{5}$\n\nFinal answer: $\\boxed{6}$",
        r"Step 1: $\boxed{5}$ apples are left. Step 2: he buys one: $\boxed{6}$",
        r"Not \boxed{5}. It is \boxed{6}.",
        r"I first got \boxed{5}, but the answer is \boxed{6}.", r"$\boxed{5}$? No. $\boxed{6}$",
        r"\boxed{5 is wrong, so $\boxed{6}$", r"It is \boxed{5}, corrected: \boxed{6}",
        "$\\boxed{6}$\n\n$\\boxed{6}$", r"$\boxed{6}$. So the final answer is $\boxed{6}$.",
    ]),
]

# Sums of money and formulas in one sentence.
MONEY = [
    ("10,455", [
        "$10,200 + $255 = $10,455. Final Answer: The final answer is $10,455$. I hope it is correct.",
        "10,200$ and 255$ make 10,455$.", "$10,200 and $255 make $10,455.",
    ]),
    ("255", [
        r"The answer is \$255.", "So she has $500 - $245 = $255 left.",
    ]),
    ("18", [
        "Janet makes 9 * $2 = $18 every day. The answer is $18.", "At $2 an egg, $x = 18$ dollars.",
        r"Each costs $2. Thus $9 \cdot 2 = 18$. Final Answer: $18$",
        "The price is $2 and the number is $9$, so the total is $18$.",
    ]),
    ("1,250", ["Her budget of $1,000 grows by $250, so it is $1,250 now.", "$1,000 + $250 = **$1,250**"]),
    ("5", [
        "With $20 and $4 a ticket, $20/4 = 5$. The final answer is $5$.",
        r"He has $20. A ticket costs $4. So he can buy $\frac{20}{4} = 5$ tickets.",
        "He has $20, and a ticket is $4, so he buys 20/4 = 5 tickets.",
    ]),
    ("8", [
        "The $3 coin and the $5 coin are worth $3 + 5 = 8$ dollars.", "$3 + $5 = $8", "$3 and $5 give $8$",
        "$3$ and $5$ give $8$.", "The cost: $3 for tea, $5 for cake. The answer is $8$.",
    ]),
    ("x+3", ["If tea is $3, the total is $x + 3$.", "Tea is $3 and cake is $x$ dollars: together $x + 3$."]),
    ("60", [
        "$12 an hour for 5 hours is 12 × 5 = $60.", "$12/hour * 5 hours = $60. The final answer is $60$.",
    ]),
    ("0.75", [r"It is $3 for 4, so $\$0.75$ each.", "It is $3 for 4, so $0.75 each."]),
    ("75", ["It is $3 for 4, so 75 cents each."]),
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


@pytest.mark.parametrize("table", [GIVES, JOINED_BOXES, LAST_BOX, MONEY])
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
    ("He runs 80 miles in", "80 miles"), ("The answer is: even.", "even"), ("答案是12。", "12")])
def test_an_answer_is_given_without_what_surrounds_it(response, answer):
    assert judge.answer_of(response) == answer


def test_boxes_that_are_not_joined_give_one_answer():
    assert not [text for _, text in cases(LAST_BOX) if judged("5, 6", text)[1]]


@pytest.mark.parametrize("response, answer", [
    ("The answer is 3 hours and 20 minutes.", "3 hours and 20 minutes"),
    ("So it took her 3 hours 20 minutes.", "3 hours 20 minutes"),
    ("Answer: Tom has 3 apples and 5 pears.", "3 apples and 5 pears")])
def test_quantities_are_one_answer(response, answer):
    assert judge.answer_of(response) == answer


@pytest.mark.parametrize("prose", [
    "So $\\boxed{%s}$ is it, for 3 reasons.", "Final Answer: The final answer is $%s$. I hope it is correct.",
    "We get\n$$%s$$", "2+2=4\n#### %s", "<think>3</think>\n**Answer:** $%s$",
    "Therefore, the answer is \\(%s\\)"])  # fmt: skip
def test_prose_changes_no_verdict(prose):
    """Every pair of the tables once more, within a response; but 2x if x > 0, as a sentence, gives 2x."""
    for table, same in ((SAME, True), (DIFFERENT, False)):
        plain = [case for case in cases(table) if not re.search(r"oxed|\*\*|\$|\bif\b|4pt", case[1])]
        assert not [case for case in plain if judged(case[0], prose % case[1])[1] is not same]


@pytest.mark.parametrize("response", ["", "  \n", "<think>", "<think>it is 5", "<|im_end|>",
                                      r"The answer is \boxed{}.",
                                      "I do not know what they want me to do."])  # fmt: skip
def test_no_answer_is_none(response):
    assert judge.answer_of(response) is None


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
    "9^{9^{9}}", "2^{-9^{9^9}}", r"\pi^{\pi^{\pi^{\pi^{\pi^\pi}}}}", "1e999999999", "2.5e4443", "1000!!!!",
    "9" * 1_000_000, "0." + "3" * 1_000_000, r"\binom{10^9}{5\cdot10^8}", r"\sin(10^{10000})",
    "0." + "1" * 900 + "2...", r"0.\overline{" + "3" * 300 + "}", "-" * 380 + "1", r"\pm 1" * 100,
    "1" + "=1" * 190,
    "(" * 100_000 + "1" + ")" * 100_000, "{" * 10_000 + "1" + "}" * 10_000, "f(" * 190 + "x" + ")" * 190,
    r"\frac{1}{" * 100_000 + "2" + "}" * 500, r"\sqrt{" * 38 + "2" + "}" * 38, "x" + "^x" * 190,
    "+".join(rf"\sqrt{{{n}}}" for n in range(2, 99)), "".join(f"(x+{n})" for n in range(2, 99)),
    "+".join(f"x^{{{n}}}" for n in range(9000, 9099)), ",".join(f"10^{{{n}}}" for n in range(900, 1000)),
    "(0,1)" + r"\cup(1,2)" * 99, r"\{" + ",".join(map(str, range(190))) + r"\}",
    "a " * 24 + "reciprocal 5", "x is " * 12 + "the reciprocal of $5$", "is 5 " * 9000, "so " * 9000,
    "$1$, " * 50_000, "the answer is " * 50_000, " " * 1_000_000 + "5", "x" + "\n" * 300_000 + ")",
    "\\boxed{" * 10_000 + "5" + "}" * 10_000, "\\boxed{ " * 20_000, "\\(" * 100_000, "$" * 100_000,
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
