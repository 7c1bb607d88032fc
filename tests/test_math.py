"""Maths answers: which are the same, which are not, which one a response gives, and what harms no judge.

Tables: an indented line goes on with the one before, ‖ separates rows of one line, ¶ is a new line, a line
that begins with # is a comment.
"""

import importlib
import random
import re
import time

import pytest
from conftest import python

judge = importlib.import_module("02_label")

# A reference ~ answers and responses that are not the same: each would be accepted without the rule above it.
GUARDS = r"""
# a sign before the formula or the box
\pi/6 ~ # Answer¶¶-$\pi/6$ ~ The angle is -$\frac{\pi}{6}$. ~ minus $\pi/6$
5 ~ The answer is: –$5$ ~ The value is minus $5$. ~ $x=-\boxed{5}$ ~ Hence $x = - \boxed{5}$.
# the reference does not choose the answer
12 ~ The result is 12 for the first part. So the answer is $\frac{x}{2}$.
  ~ The answer is $\frac{12}{5}$, where 12 is the numerator.
C ~ The answer is (B), since (C) is impossible. ~ The correct option is (A), not (C). ~ 答案是A，不是C。
# an answer that is taken back, has a condition, or is denied
5 ~ The final answer is 5, no wait, 6. ~ So x = 5.¶¶But wait, checking it: x = 6. ~ not 5
  ~ The answer is 5. Let me reconsider: it is 6. ~ One might think the answer is 5, but in fact it is 6.
  ~ 5 if n is even ~ \boxed{5 \text{ if } x > 0} ~ The answer is 5 provided that x > 0, and 6 otherwise.
# something else made of the number
5 ~ The answer is $5$ or more. ~ The answer is the reciprocal of 5. ~ The answer is pi over 5.
  ~ The answer is $5$ million. ~ The answer is 5 dozen. ~ \boxed{5 \text{ thousand}} ~ 5 percent of x
  ~ 5 hundredths ~ The answer is 5 thousandths. ~ The answer is 5 raised to the third power.
  ~ The answer is 5 root 2. ~ The answer is 5 remainder 3. ~ Answer: Tom has 3 apples and 5 pears
  ~ The answer is 5 apples and 3 oranges. ~ 5 \text{ or none} ~ \pm 5 ~ log 5 ~ 5 to 6 ~ 5:6
# an equation is not its side, and labels count
2 ~ 2x = 2 ~ x \ne 2 ‖ x+1 ~ x+1 = 0 ~ 2x+2=0 ‖ 5x-7y+4=0 ~ 0 ~ 5x-7y+4 ~ 5x-7y-4=0 ‖ x=5 ~ y=5 ~ z = 5
x=1,y=2 ~ x=2,y=1 ~ 2,1 ‖ y=2x+3 ~ x=2y+3 ~ f(x)=2y+3 ‖ f(x)=x ~ f(f(x))=x ~ f(2)=2
# another unit, base or modulus
90\% ~ $90^\circ$ ~ 90 cm ~ 90 degrees ‖ 90^\circ ~ $90\%$ ~ 90 percent ~ \frac{\pi}{2} ~ 90 \text{ rad}
5\text{ cm} ~ 5 inches ~ 5 cm/s ~ 5 dollars ‖ 15\text{ cm}^2 ~ 15 \text{ cm}^3 ~ 15 \text{ m}^2
60\text{ mph} ~ 60 \text{ km/h} ~ 60 m/s ‖ \$5 ~ 5 cents ~ 5¢ ‖ 20 ~ 0.2 ~ 0.2\% ‖ 52_8 ~ 52_9 ~ 25_8
3 ~ 3_4 ~ 3_{5} ‖ n \equiv 3 \pmod 7 ~ n = 3 ~ 3
# a decimal is not endless, but for a rounded reference; arithmetic is exact
\frac{1}{3} ~ 0.3333333333 ~ 0.33 ‖ \sqrt{2}+\sqrt{3} ~ 3.14626436994197 ~ 3.146 ‖ 0.3 ~ \frac13 ~ 0.33
10^{50} ~ 10^{50}+1 ‖ 0 ~ e^{-200} ~ 10^{-1000} ‖ 262537412640768744 ~ e^{\pi\sqrt{163}}
# letters and words with another meaning
\text{(C)} ~ \text{(C)} \text{ or } 77 ~ (C)^2 ‖ 3 ~ three halves ~ three-fifths ‖ ①③ ~ ①②③ ~ 13
\text{even} ~ not even ~ neither even nor odd
"""

# A reference ~ what is the same ≠ what is not.
PAIRS = r"""
# numbers
2 ~ ∛8 ‖ 2\sqrt3 ~ √12 ‖ 10^{-3} ~ 10^-3 ~ 10⁻³ ‖ 0 ~ \sqrt2+\sqrt3-\sqrt{5+2\sqrt6}
6 ~ 2 \cdot 3 = 6 ~ 1+2+3 ≠ \operatorname{lcm}(4,3) ~ \lfloor 5.9\rfloor ~ \gcd(6)x
10080 ~ 10\,080 ‖ 10{,}000 ~ 10 thousand ‖ 1,000,000 ~ 1\text{ million} ‖ 1{,}000 ≠ 1,00 ‖ 12,345 ≠ 12,3,45
\frac13 ~ 0.333... ~ 0.(3) ~ 33\frac13\% ≠ \frac13\% ~ 0.34 ‖ \frac{9}{11} ~ 0.\overline{81}
0.\overline{3} ≠ 3 ‖ \frac{270}7\text{ degrees} ~ 38 4/7 ‖ 3\frac12 ≠ 3, \frac12 ‖ 2\frac34 ≠ 2\cdot\frac34 ~ 2(3/4)
p=\frac14 ~ 25\% ‖ \sqrt[3]{2} ~ 2^(1/3) ‖ 0 ~ \sqrt{8}-2\sqrt{2} ~ \sin\pi ‖ -2 ~ \sqrt[3]{-8}
2+3i ≠ 2+3j ‖ \infty ≠ \frac{1}{\infty} ‖ 3 ~ \log_{10}{1000} ≠ 3\text{ dozen}
\frac12 ~ \sin 30^\circ ‖ \tan 90^\circ ≠ \cot 0
\pm 2 ~ \mp2 ‖ \left\lfloor 3.5 \right\rfloor ~ floor(3.5)
\sqrt{2} ~ x = \sqrt{2} \approx 1.41 ~ \sqrt2 = 1.414\ldots ~ \sqrt{2} \text{ (approximately } 1.414)
3.46 ~ x \approx 3.46
# words and choices
2 ≠ 2abcd ~ two-thirds ‖ \frac23 ~ \text{two-thirds} ‖ \frac12 ~ a half ~ one half ‖ 19 ≠ twenty-one
40 ~ forty ‖ 21 ~ twenty-one ~ \text{Twenty-one} ‖ 27 ~ \text{27 (exactly)} ‖ 7\text{th} ~ 7^{th}
10 ~ 10 (ten) ~ 10 (ways) ‖ 12 ~ \textbf{(C)}\ 12 ‖ \text{(C)} ~ Option C ≠ (B) 12
\text{(B)} ~ \boxed{B} ≠ (B) or (C) ~ B' ‖ A,C ≠ C ‖ \text{the parabola} ~ a parabola
\text{ellipse} ~ an ellipse ‖ 5 ~ \text{the area is } 5 ≠ 5 to 6 ‖ 6:00\text{ PM} ~ 6\text{ p.m.}
6:30\text{ p.m.} ≠ 6:30\text{ a.m.} ‖ 11:21 ~ 11 \text{ to } 21 ‖ 12:30 ≠ 2/5
# units, bases and moduli
90^\circ ~ \angle ABC = 90^\circ ‖ 16 ~ m\angle A = 16^\circ ‖ 25 ~ 25^\circ\text{C}
9.8 ~ 9.8\ \mathrm{m\cdot s^{-2}} ‖ 11\sqrt{3} ~ 11 \sqrt{3} \text{ units}^2
\frac{3}{4}\text{ cup} ~ three fourths ‖ \$18 per hour ~ \$18 ‖ 60\text{ mph} ~ 60 mi/h ≠ 60 ft/s
5\text{ m/s} ≠ 5 kph ‖ 5\text{ square feet} ≠ 5 ft^3 / 2 ‖ 150\text{ grams} ~ 150 g ≠ 150 m
2.5\text{ hours} ~ 2.5 h ‖ 5m ≠ 5 ‖ 3 m ~ 3m ‖ 52_8 ~ 52 ‖ 1010_2 ≠ A_{16}
n\equiv 3\pmod 7 ~ n\equiv 3\pmod{7} ‖ 2 \pmod 5 ~ x ≡ 2 (mod 5)
# expressions and functions
\sin^2 x ~ \frac{1-\cos 2x}{2} ≠ \sin 2x ‖ n! ~ n(n-1)! ≠ n!! ‖ \sin x ≠ \sin ‖ x ≠ \sqrt{x^2} ‖ a_1 ≠ a1
\cot x ~ \frac{1}{\tan x} ~ \operatorname{ctg} x ‖ x^{2+y} ~ x^2x^y
x\sqrt{x} ~ \sqrt{x^3} ‖ a₁+1 ~ a_1+1 ‖ [1,2] ~ \begin{bmatrix}1&2\end{bmatrix} ‖ \left|x-1\right| ~ \sqrt{(x-1)^2}
x^2-1 ~ f(x)=(x-1)(x+1) ‖ x^2+2x+1 ~ (x + 1)**2 ‖ a^2-b^2 ~ (a+b)(a-b) ‖ \frac{1}{x+1} ≠ x+1
\frac{n(n-1)(n-2)}{6} ~ C(n,3) ‖ \binom n3 ≠ P(n,3) ‖ \log_2 3 ≠ \log 2^3 ‖ \log(ab) ≠ \log(a+b)
\log_2 8x ≠ \log_2 8 \cdot x^2 ‖ \theta=\tan^{-1}(\mu) ~ \arctan{\mu} ‖ \overline{AB} ≠ \angle AB
f(x)+f(y) ≠ f(x+y) ‖ \max(a,b) ~ \max\{a,b\} ≠ a+b ~ \max(a,c) ‖ \sum_{k=1}^{10} k ≠ 10k ‖ \int_0^1 x dx ≠ x
2x ≠ 2x if x>0, -2x if x<0 ‖ x=\frac{\pi}{2}(2n+1), n \in Z ~ x = \frac{\pi}{2} + \pi n
2 k \pi+\frac{\pi}{3}(k \in \mathbf{Z}) ~ x=\frac{\pi}{3}+2\pi k, \quad k\in\mathbb{Z}
\frac{\pi}{4}+k\pi, k\in\mathbb{Z} ≠ \frac{\pi}{4}+2k\pi
# equations
2 ~ x+1=3 \Rightarrow x=2 ‖ \frac{\pi}{3} ~ \arg z=\pi/3 ‖ y(t)=e^{-t} ~ y(t) = \exp(-t) ‖ x=5 ≠ x \ne 5
f^{-1}(x)=\frac{x-3}{2} ~ \frac12 x-\frac32 ‖ 60 ~ 60 \frac{\text{km}}{\text{h}} ‖ y=x^2 ≠ y=-x^2
x+y=3 ≠ x+y ‖ y=2x+3 ≠ 3 ‖ 10 ≠ 2x=10 ~ x^2=10 ‖ (x-1)(x-2)=0 ≠ (x-1)(x-3)=0
f(x)=0, f(x)=x ≠ f(x)=0,f(x)=2x ‖ x\neq3 ~ x \not= 3
# tuples, lists, sets and matrices
(6,31,-1) ~ 6,31,-1 ‖ \{1,2,3\} ~ 1, 2, and 3 ‖ -2,1 ~ x=1 or -2 ‖ \{5\} ~ x=5 ‖ 3,-3 ~ x = ±3
AB=4, CD=5 ~ 4, 5 ‖ y_{1}=-2x^{2}+4x+3, y_{2}=3x^{2} ~ y_1=-2(x-1)^2+5, y_2=3x^2 ~ -2x^2+4x+3, 3x^2
x=1,y=2 ~ \begin{cases}x=1\\y=2\end{cases} ~ \left\{\begin{aligned} x&=1\\ y&=2\end{aligned}\right.
\left\{\begin{array}{l}x=1 \\ y=2\end{array}\right. ~ (1,2) ‖ k=\frac{1}{4}\text{ or }k=-1 ~ -1,\frac14
\{1,-2\} ~ x = -2\text{ and }x = 1 ≠ x=1 \text{ or } x=2 ‖ \{(1,2),(3,4)\} ~ (3,4) \text{ and } (1,2)
\pm\sqrt{3} ~ x = \sqrt{3}\text{ and }x=-\sqrt{3} ‖ 2\pm i ~ x=2 \pm i
m=-3 \text{ or } m=1 ~ m \in \{-3,1\} ‖ 1: \sqrt{2}: \sqrt{3} ~ \sqrt2 : 2 : \sqrt6 ≠ 1:\sqrt3:\sqrt2
a=1, b=2, c=3 ≠ (3,2,1) ‖ \frac{2}{3} ≠ (2,3) ‖ (1,2) ≠ 2,1 ‖ (1,2),(3,4) ≠ 1,2,3,4 ‖ 1,-2 ≠ (-2,1)
1,2,3,\ldots ≠ 1,2,3,4 ~ 1,2,3 ‖ n=2,3,4 ≠ 1,2,3,\ldots ‖ (2,3) ≠ 2,3,4 ~ x=2 ‖ \{2n : n = 1,2,3\} ≠ n = 1,2,3
A \cup B ≠ A ~ B \setminus A ‖ \{2,\infty\} ≠ \{ \infty | 1 = 2, 5 \}
\begin{pmatrix} -1/3 \\ 2/3 \\ 5/3 \end{pmatrix} ~ \frac13\begin{pmatrix}-1\\2\\5\end{pmatrix}
  ~ (-1/3,2/3,5/3) ~ \begin{pmatrix}-1/3\\[4pt]2/3\\[4pt]5/3\end{pmatrix}
\begin{pmatrix}1&2\\3&4\end{pmatrix} ~ [[1,2],[3,4]] ~ \begin{pmatrix}1.0&2\\\frac62&4\end{pmatrix}
  ≠ \begin{vmatrix}1&2\\3&4\end{vmatrix}
# sets of real numbers
(-\infty,3)\cup(3,\infty) ~ x∈ℝ∖{3} ‖ \emptyset ~ \text{no solution} ~ \{\,\}
(0.6,2.6667] ~ (\frac{3}{5},\frac{8}{3}] ‖ (-\infty,\infty) ~ \text{all real numbers}
x>-1 \text{ and } x \neq 0 ~ (-1,\infty)\setminus\{0\}
\left(-\infty ;-\frac{1}{2}\right] \cup[3 ;+\infty) ~ x \le -\frac12 \text{ or } x \ge 3
(-\infty,-1)\cup(2,\infty) ~ (-\infty, -1) U (2, \infty)
  ~ \{x : x < -1 \text{ or } x > 2\}
  ~ \{x \in \mathbb{R} \mid x < -1 \text{ or } x > 2\}
\mathbb{R}\setminus\{2\} ~ \mathbb{R} - \{2\} ≠ \mathbb{R}-\{3\}
[2,\infty)\cup\{0\} ~ x \ge 2 \text{ or } x = 0 ‖ \{2k\pi \mid k \in \mathbb{Z}\} ~ 2k\pi, k\in\mathbb{Z}
\{(x,y) \mid y = 2x\} ~ \{(x,y) : 2x = y\} ‖ (0,1)\cup(1,\infty) ≠ x\ne1 ‖ [1,4] ≠ [1,4]\cap[2,3]
(-\infty,2) ≠ [-\infty,2) ~ (-\infty,2] ‖ |x-2|\ge 3 ≠ |x-3|\ge 2 ‖ x\ge1 \text{ or } x\le -1 ≠ -1\le x\le 1
x<4 ≠ 2x<4 ‖ x<-1 ≠ \{x : x < -1 \text{ or } x > 2\} ‖ \{x^2 \mid x > 0\} ≠ \{x | x > 0\}
\{k\pi \mid k \in \mathbb{Z}\} ≠ \{k\pi + 1 | k \in \mathbb{Z}\}
x<-1 ≠ \{x \mid x < -1, x \in \mathbb{Z}\}
"""

# Which answer a response gives: a reference that it must be the same as @ responses.
GIVES = r"""
# boxes
5 @ \boxed{5} \boxed{} \boxed{ } @ $\boxed{\boxed{5}}$ and 7 more ‖ 12 @ So we get \boxed{12
2,3 @ First \boxed{7} is a mistake; the roots are \boxed{2} and \boxed{3}.
7 @ <think>first \boxed{3}, hmm, so \boxed{7} and then it was cut off
(2,3) @ $x = \boxed{2}$, $y = \boxed{3}$ ‖ \frac{1}{2} @ \\boxed{\\frac{1}{2}}
11 @ The answer is \boxed{\ 11\ }.
# what a phrase announces
\text{(A)} @ So the best choice is A. @ Option B ignores friction, and C is too large. Hence A.
42 @ The final answer is 42! @ The answer is forty-two. ‖ \{1,2\} @ The answer is $\{1,2\}$.
5 @ The answer is not 6 but 5. @ Hence the result equals $5$, because $1+1=2$.
2x + 4y + z - 19 = 0 @ Final Answer: The final answer is $2x + 4y + z - 19 = 0$. I hope it is correct.
7 @ Answer: 7? @ The answer is not 5, but 7. ‖ 1\frac12 @ The answer is 1 1/2.
-\frac{1}{2} @ Answer: $-\dfrac12$ ‖ 18 @ **Answer:** Janet makes $18 every day.
(2,3) @ The answer is the ordered pair (2, 3).
54 @ 7 * 8 = 54. The answer is correct @ So the final answer would be 54, I guess?
11 @ The answer is $11$ for $n = 5$.
\text{(D)} @ The correct choice is therefore $\textbf{(D)}$. @ The answer is (D), not (C).
  @ Answer: (D). Choice (C) would be correct if zero were allowed.
\text{(C)} @ Therefore, option C is correct. @ It is not A. The correct choice is C.
# the same in Chinese
(2,3) @ 交点坐标为（2，3）。 ‖ 12 @ 答：共有12人。 @ 一共需要 12 小时。 ‖ 2,3 @ 方程的解为 $x=2$ 或 $x=3$。 ‖ \text{(C)} @ 故选：C @ 因此，选C。
# the last formula
5 @ ## Solution¶¶$2x = 10$, so $x = 5$. ‖ 204 @ Therefore, $m+n=101+103=\mathbf{204}$. ‖ -3 @ So x = $-3$
2,3 @ Hence $x=2$ or $x=3$ are the solutions. ‖ 90^\circ @ The total is $90^\circ$ in all. @ ∠ABC = 90°
7 @ Tom is 7 years old. @ She needs 7 more minutes to finish. @ The remainder is 7 when divided by 11.
  @ Therefore, there are 7 such integers $n$.
1234 @ There are 1 234 of them. ‖ p-q @ So we get p - q
p - q @ The value is therefore $p - q$ when simplified. ‖ 73 @ m + n = 65 + 8 = 73. ‖ x=2 @ Hence x = 2.
18 @ Janet earns $18/day. @ 9 eggs * $2/egg = $18 @ When x = 3, y = 18. @ So she earns **$18**.
\text{Evelyn} @ Hence $x = \text{Evelyn}$ ‖ (5,3) @ So x = 5 and y = 3.
(1,-1) @ The solution is x = 1, y = -1.
10 @ The triangle is right. We find that m = 3, n = 7, and m + n = 10.
\begin{pmatrix}1\\2\end{pmatrix} @ So $\mathbf{v} = \begin{pmatrix} 1 \\ 2 \end{pmatrix}.$
42 @ $n = 42. \quad \blacksquare$ @ Step 1: 6 * 7 = 42.¶Step 2: Done.
  @ \begin{align*}¶x &= 6 \cdot 7 \\¶&= 42.¶\end{align*}
\text{(D)} @ Options (A), (B) and (C) can be eliminated, which leaves (D). @ (C) is incorrect. Hence (D).
\frac{1}{2} @ So the probability is 1/2, or 50%. @ one half @ So it is 1/2 = 0.5 = 50%.
|x-2| \ge 3 @ The answer is |x−2| \ge 3. ‖ [1,5) @ The inequality holds for $1 \le x < 5$.
2\sqrt{5} @ d = sqrt(20) = 2*sqrt(5)
1,3 @ The solutions are $1$ and $3$. @ The solutions to the equation are $x = 1$ and $x = 3$.
\begin{pmatrix}1&2\\3&4\end{pmatrix} @ The inverse is¶\[¶\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}.¶\]
2:3 @ The ratio is 2:3. ‖ 3:2 @ The ratio of boys to girls is 3 to 2.
2\pi @ Its area equals 2π square units.
16 @ So we have $\frac{m}{n} = \frac{7}{9}$, hence $m+n = 7+9 = 16$.
\frac{7}{9} @ So we have $P = \frac{14}{18} = \frac{7}{9}$.
\frac{7}{12} @ So $P = \frac{7}{12} \approx 0.583$.
3\sqrt{2} @ Therefore the length is 3√2 cm. @ Therefore AB = 3 sqrt(2).
(-\infty,2)\cup(3,\infty) @ So $x<2$ or $x>3$. ‖ 17 @ Therefore, $a + b = 17$, where $a = 8$ and $b = 9$.
\text{B} @ I choose B. @ B. 12 @ (B) 12 ‖ 4:30 @ 4:30 @ It starts at 4:30. ‖ \text{6:00 PM} @ so at 6 p.m.
\frac34 @ She used 3/4 of a cup.
11 @ It leaves 11 eggs left over after lunch. @ Thus $\lfloor 100r \rfloor = 11$.
  @ we get 5 + 6 = 11 and are done.
"""

# Several boxes that are one answer, and several of which the last one counts: a reference @ responses.
JOINED_BOXES = r"""
-2, 1 @ $\boxed{-2} \quad \text{and} \quad \boxed{1}$
(2, 2), (6, 2) @ \boxed{(2, 2)} \quad \text{and} \quad \boxed{(6, 2)}
k = 45, n = 2 @ \boxed{k = 45} \quad \text{and} \quad \boxed{n = 2}
x^2, x^3 @ \( y_1 = \boxed{x^2} \) and \( y_2 = \boxed{x^3} \)
3, 4 @ The answers are $\boxed{3}$ for part (a) and $\boxed{4}$ for part (b).
  @ (a) $\boxed{3}$¶(b) $\boxed{4}$ @ Part (a): $\boxed{3}$¶¶Part (b): $\boxed{4}$
  @ 1. $\boxed{3}$¶2. $\boxed{4}$ @ \[\boxed{3}, \quad \boxed{4}\] @ \[\boxed{3}\]¶and¶\[\boxed{4}\]
  @ $\boxed{3}$ or $\boxed{4}$. @ $\boxed{3}$; $\boxed{4}$ @ **$\boxed{3}$** and **$\boxed{4}$**
  @ $$\boxed{3}$$ $$\boxed{4}$$ @ x = \boxed{3}, y = \boxed{4} @ $x = \boxed{3}$ and $y = \boxed{4}$
  @ $\alpha=\boxed{3}$ and $\beta=\boxed{4}$ @ $a_1 = \boxed{3}$, $a_{2} = \boxed{4}$
  @ $f(1) = \boxed{3}$ and $f(2) = \boxed{4}$ @ \boxed{3} \text{ or } \boxed{4} @ \boxed{3}\\ \boxed{4}
  @ \begin{aligned} x &= \boxed{3} \\ y &= \boxed{4} \end{aligned} @ $\boxed{3}$ as well as $\boxed{4}$
  @ $\boxed{3}$、$\boxed{4}$ @ $\boxed{3}$ 和 $\boxed{4}$ @ \boxed{3} \quad \mbox{and} \quad \boxed{4}
  @ The solutions are \(\boxed{3}\) and \(\boxed{4}\), respectively.
  @ \boxed{3}\text{ for (i) and }\boxed{4}\text{ for (ii)}
3, 4, 5 @ $\boxed{3}$, $\boxed{4}$, and $\boxed{5}$ @ $\boxed{3},\ \boxed{4},\ \text{and}\ \boxed{5}$
\{-1\} \cup [0,7) @ $\boxed{\{-1\}} \cup \boxed{[0,7)}$ @ $\boxed{\{-1\} \cup [0,7)}$
[0,7) \cup \{-1\} @ $\boxed{\{-1\} \cup [0,7)}$
(-\infty,1) \cup (2,3) @ \[\boxed{(-\infty, 1)} \quad \cup \quad \boxed{(2, 3)}\]
"""
LAST_BOX = r"""
6 @ not $\boxed{5}$ but $\boxed{6}$ @ So $\boxed{5}$. Wait, that is wrong: $\boxed{6}$
  @ $\boxed{5}$, no, $\boxed{6}$ @ $\boxed{5}$. Actually, $\boxed{6}$. @ $\boxed{5}$ or rather $\boxed{6}$
  @ $\boxed{5}$ is wrong; $\boxed{6}$ @ \boxed{5} \text{ is too small, so } \boxed{6}
  @ \boxed{5} \Rightarrow \boxed{6} @ \boxed{5} + 1 = \boxed{6} @ $\boxed{5}$ plus one is $\boxed{6}$
  @ First, $r = \boxed{5}$. Then the area is $\boxed{6}$.
  @ The radius is $\boxed{5}$, so the sum is $\boxed{6}$.
  @ We have $x = \boxed{5}$ and hence $x + 1 = \boxed{6}$.
  @ $\boxed{5}$¶¶Checking again, the final answer is $\boxed{6}$ @ $\boxed{5}$¶¶**Correction:** $\boxed{6}$
  @ $\boxed{5}$¶¶Final answer: $\boxed{6}$ @ \boxed{5} \to \boxed{6} @ \boxed{5} < \boxed{6}
  @ \boxed{5} \ne \boxed{6} @ $\boxed{5}$ (first attempt), $\boxed{6}$ (second attempt)
  @ Step 1: $\boxed{5}$ apples are left. Step 2: he buys one: $\boxed{6}$ @ Not \boxed{5}. It is \boxed{6}.
  @ \boxed{5} \text{ instead of } \boxed{6} \text{; sorry, } \boxed{6}
  @ I first got \boxed{5}, but the answer is \boxed{6}. @ $\boxed{5}$? No. $\boxed{6}$
  @ $\boxed{5}$... hmm, $\boxed{6}$ @ ~~$\boxed{5}$~~ becomes $\boxed{6}$
  @ The old value was \boxed{5}; the new one is \boxed{6}.
  @ \boxed{5}^2 = 25, \text{ and half of it, rounded down by half, is } \boxed{6} @ $\boxed{6}$¶¶$\boxed{6}$
  @ $\boxed{6}$. So the final answer is $\boxed{6}$.
  @ \boxed{5} \times \boxed{6}, \text{ of which the second is asked: } \boxed{6}
"""

# Sums of money and formulas in one sentence.
MONEY = r"""
10,455 @ $10,200 + $255 = $10,455. Final Answer: The final answer is $10,455$. I hope it is correct.
  @ The cost is $10,200 plus a fee of $255, which is $10,455$. @ He paid $255, and in all $10,455$.
  @ 10,200$ and 255$ make 10,455$. @ $10,200 and $255 make $10,455.
255 @ She spent $10,200 and saved $255. @ The answer is $255 per month. @ The answer is $\$255$.
  @ The answer is \$255. @ So she has $500 - $245 = $255 left. @ So she has $500 - $245 = $255$ left.
  @ So she has \$500 - \$245 = \$255 left.
18 @ Janet makes 9 * $2 = $18 every day. The answer is $18. @ At $2 an egg, $x = 18$ dollars.
  @ Janet sells 9 eggs at $2 each, so she makes $9 * 2 = $18$. @ At $2 an egg, she makes $18 in total.
  @ If each costs $2, then $9 \cdot 2 = 18$. @ Each costs $2. Thus $9 \cdot 2 = 18$. Final Answer: $18$
  @ The price is $2 and the number is $9$, so the total is $18$. @ It rose from $2 to $20, a rise of $18.
18.50 @ He pays $2.50 + $16 = $18.50. @ He pays $2.50 and $16, that is $18.50 in all.
1,250 @ Her budget of $1,000 grows by $250, so it is $1,250 now. @ $1,000 + $250 = **$1,250**
1250 @ $1,000 + $250 = \$1{,}250. The final answer is $1{,}250$.
5 @ With $20 and $4 a ticket, $20/4 = 5$. The final answer is $5$.
  @ He has $20. A ticket costs $4. So he can buy $\frac{20}{4} = 5$ tickets.
  @ He has $20, and a ticket is $4, so he buys 20/4 = 5 tickets.
8 @ The $3 coin and the $5 coin are worth $3 + 5 = 8$ dollars. @ $3 + $5 = $8 @ $3 and $5 give $8$
  @ $3$ and $5$ give $8$. @ The cost: $3 for tea, $5 for cake. The answer is $8$.
x+3 @ If tea is $3, the total is $x + 3$. @ Tea is $3 and cake is $x$ dollars: together $x + 3$.
60 @ $12 an hour for 5 hours is 12 × 5 = $60. @ $12/hour * 5 hours = $60. The final answer is $60$.
0.75 @ It is $3 for 4, so $\$0.75$ each. @ It is $3 for 4, so $0.75 each.
75 @ It is $3 for 4, so 75 cents each.
"""

# Sentences in which 5 (for G) is not the answer, and sentences in which it is; … is short for The answer is.
REFUSED = r"""
# denied
It cannot be G. ~ … never G. ~ … different from G. ~ … neither G nor 7. ~ x is not equal to G.
  ~ We reject G. ~ This rules out G. ~ Every number other than G works. ~ Everything apart from G.
  ~ … 7, not G. ~ … 7 because G is not prime. ~ So the answer is not just G.
  ~ The function is undefined at x = G. ~ It diverges for x = G. ~ … not G, it is 7. ~ not $\boxed{G}$
  ~ There is no way that the answer is G. ~ The answer G is incorrect. ~ Hence G is too large.
  ~ G doesn't work. ~ Hence G fails. ~ G is not in the domain. ~ G is a trap. ~ G would be too many.
  ~ G needs to be excluded. ~ G contradicts the assumption.
  ~ So x = 7. The other root is G, which is rejected. ~ So x = 7 (we drop x = G since lengths are positive).
# taken back
… G? No, it is 7. ~ … G. Hmm, that's not right. ~ … G. On second thought, it is 7.
  ~ The answer seems to be G but is actually 7. ~ So we get G, but we need to subtract 2, which leaves 7.
  ~ … G. That is too small. ~ If we may divide by x, we get G. We may not.
# a box that is denied, supposed or asked for
\boxed{5} is wrong. ~ It is a mistake to write $\boxed{5}$. ~ Suppose the result is \boxed{5}.
  ~ Could it be \boxed{5}? ~ So \boxed{5}? No. ~ $\boxed{5}$. That is incorrect. ~ Reject \boxed{5}.
  ~ I might have put \boxed{5}, but the check fails. ~ Were x odd, it would be $\boxed{5}$.
# only supposed, or what others say
The answer might be G. ~ Suppose the answer is G. ~ Is the answer G? ~ A naive guess would be G.
  ~ If x = G, stop. ~ Some would say the answer is G. ~ At first glance the answer seems to be G.
  ~ We expected G. ~ It is hardly G. ~ It is false that the answer is G. ~ I do not think the answer is G.
  ~ The answer used to be G. ~ With n = G, no. ~ If we took G we would get a contradiction.
  ~ Trying G fails. ~ … 7. If we counted both, the answer would be G. ~ The intermediate answer is G.
  ~ You said the answer is G. I disagree. ~ Forgetting the sign, we get G. ~ This does not mean that x = G.
  ~ … 7, although one might expect G.
# nothing announces it, and its sentence is a guess, an aim, a trial or about another question
We still have to show that x = G. ~ The book lists the value G. ~ Bob's estimate is G. ~ It is nearly G.
  ~ I must check whether x is G. ~ The total would be G. ~ In an earlier puzzle, x was G. ~ I retract G.
  ~ No choice of x gives G. ~ It is G, on the assumption that n is even. ~ x = G is outside the range.
  ~ Those who forget the sign get G. ~ A careless reader gets G. ~ So x = 7. You'd get G with degrees.
  ~ G is frequently seen. ~ We have dismissed G. ~ x = G, provided that n is even. ~ Is x = G? No.
  ~ G came from a slip in the sign. ~ G belongs to another problem. ~ G makes no sense. ~ Barring x = 7, x = G.
  ~ Our aim is to show that x = G. ~ The hint was G.
# it is in a reason, in a check, or about one case
It is 7, given that he stands at G. ~ It is 7, seeing that each takes G. ~ It takes 7 to fill it, whose side is G.
  ~ It is 7, as each takes G. ~ When n is even, the answer is G. ~ If n is prime, x = G. ~ It is G once n is large.
  ~ The median is 7, though some who count twice, get G. ~ Kim has 7 after giving away G.
  ~ So x = 7. Check: 7 - 2 = G. ~ So x = 7. Indeed 7 - 2 = G. ~ So x = 7. As a test, 7 - 2 = G.
  ~ So x = 7. Plugging back: 7 - 2 = G. ~ So x = 7. For comparison, the square has G.
# compared, or a part of another number
… less than G. ~ … G more than 2. ~ … G at least. ~ … up to G. ~ It is close to G. ~ … 7, which exceeds G.
  ~ It is 7 less than G. ~ … G times 2. ~ … 2 times G. ~ … G percent of 20. ~ … the square root of G.
  ~ … one of 3 and G. ~ … 12 mod G. ~ … 12 over G. ~ So he takes half of the G. ~ It is a multiple of G.
  ~ It is 7, of which G are red. ~ The probability is 7 out of G. ~ It costs 7 dollars per G kilograms.
  ~ It takes 7 hours for G men. ~ So Bob is 7, as old as Carol, who is G. ~ An upper bound is G.
  ~ It is somewhere from 2 to G. ~ … the 5th prime. ~ … G and a half. ~ The ratio is 7 : G.
# on a condition, or for a step that follows
… G if x is positive. ~ … G unless n is odd. ~ … G as long as n is even.
  ~ … G in the first case and 7 in the second. ~ … 12 when x = G. ~ … 12, attained at x = G.
  ~ Provided x is even, x = G. ~ Only for n = 2 is the value G. ~ Should x be odd, the answer is G.
  ~ It is 7 given n = G. ~ Unless n = G, it is reduced. ~ We still have to add G.
  ~ Multiply both sides by G. ~ The proof is on page G. ~ The base case is n = G.
"""
MEANT = r"""
# another number is denied
… not 7 but G. ~ The answer isn't 7; it is G. ~ … G rather than 7. ~ … G, since 7 is too large.
  ~ Not 7 but G. ~ 7 is extraneous, so x = G. ~ We reject 7, so x = G. ~ Since x = 7 is not valid, x = G.
  ~ Dividing by 2, x = G. ~ Discarding 7, we get x = G. ~ The answer can't be 7, so it is G.
  ~ We discard x = 7 because it is even, and get x = G.
  ~ A common mistake is to answer 7. The correct answer is G.
  ~ One might think the answer is 7, but it is G. ~ … 7. Wait, no, it is G. ~ … 7, or rather G.
  ~ Is the answer 7? No. The answer is G. ~ … G (7 is extraneous)
  ~ The answer 7 in the book is a misprint. It should be G.
  ~ So we get 7, but we need to subtract 2, which leaves G. ~ The answer cannot be anything but G.
  ~ It is no other than G. ~ There are no solutions other than x = G.
  ~ The ratio is G, and not 7. ~ It would be wrong to say 7; it is \boxed{5}. ~ \boxed{5}, not 7
  ~ If he had run, he would have needed 7 hours, but he did not, so he needed G.
  ~ So x = G; -7 makes no sense here. ~ The side is G, not 7 as a hasty guess might suggest.
  ~ We get G instead of 7. ~ We reject the other roots and get x = G.
# a reason or a check after it, and words that are a part of the story
So x = G. Check: 2x = 10. ~ The largest is G, whose square is 25.
  ~ It is G, seeing that each of the 7 counts once. ~ So x = G. For comparison, the square has 7.
  ~ The quotient is G. ~ The range of the data is G. ~ He passed after G attempts. ~ She wrote G letters.
  ~ So she initially had G pens. ~ So Bob has G left after he loses 7. ~ It was G; he never missed a day.
  ~ Unlike the first urn, the second holds G balls. ~ The largest is G, since the next one, 7, is odd.
  ~ 7 days from now is the same, i.e. **G**. ~ **Answer**¶They travel at a speed of **G km**.
  ~ So x = G is the only solution. ~ The system's solution is G. ~ The smallest it may be is G.
  ~ In May, he sold G.
  ~ The number of equally likely outcomes is G. ~ The height is approximately G m. ~ So the total would be G.
  ~ So he could make G loaves. ~ The left-hand side is G. ~ There were G birds at first. ~ Yesterday she sold G.
  ~ The best estimate is G. ~ She answered G questions. ~ So G cakes have been eaten. ~ The excluded number is G.
  ~ Notebooks cost G dollars. ~ A checkerboard has G rows. ~ The answer to the first question is G.
  ~ Here's the answer \boxed{5}. ~ The largest number it could be is \boxed{5}. ~ Without doubt it is \boxed{5}.
  ~ So \boxed{5} is the only solution. ~ Assuming constant speed, it takes G hours.
  ~ A quick calculation shows that x = G. ~ Plugging in, we get G. ~ After eliminating y we get x = G.
# a conclusion after what is announced
… 2 less than 7, so it is G. ~ … half of 10, which is G. ~ … 4.9; to be exact, it is G.
# words that refuse elsewhere, and in which a box says more than they do
If x = 2, the value is \boxed{5}. ~ We need at least \boxed{5} coins. ~ They meet at \boxed{5}.
  ~ Without loss of generality, x < 7, so we get \boxed{5}. ~ The student's score is \boxed{5}.
  ~ We get \boxed{5}, which cannot be simplified. ~ The upper bound is \boxed{5}.
  ~ How many would remain? $\boxed{5}$ ~ We get \boxed{5}, which is not even. ~ \boxed{5}. It is prime.
The answer must be G. ~ The answer would be G. ~ If we solve for x, we get x = G.
  ~ Let x be the number. Then x = G. ~ The answer to part (b) is G. ~ He needs G more apples.
  ~ Half of 10 is G. ~ There are G fewer apples than pears. ~ The difference of 12 and 7 is G.
  ~ The maximum value is G when x = 2. ~ At x = 2 the value is G. ~ For n = 2 we get G.
  ~ Adding 2 to both sides, we get x = G. ~ … thus equal to G. ~ So only x = G works.
  ~ So x is not 7, and hence x = G. ~ … G, which is 2 more than 3. ~ x = 7 - 2 = G.
  ~ The number is G, a divisor of 10. ~ The number of people who do not like tea is G.
  ~ It is not hard to see that x = G. ~ Therefore 2x = 10 and x = G. ~ **Answer:** G (order does not matter)
  ~ … G (12 - 7 = G). ~ **G**, since 7 is too small ~ … obviously G. ~ The price rose from 7 to G.
  ~ It makes G turns every 12 hours. ~ Bob walks G miles more than Carol. ~ She needs to add G grams.
  ~ Contrary to what one might guess, it is G. ~ Thus x = G, and no other number is possible.
  ~ He has to call G times for help. ~ The class consists of G people. ~ 3 out of 7 can be done in G ways.
  ~ He throws away G apples. ~ Of those 12, G are prime. ~ The digits add up to G.
"""


def table(text, separator=" ~ "):
    for row in re.split(" ‖ |\n", re.sub("(?m)^# .*\n", "", text).strip().replace("\n  ", " ")):
        yield [part.strip().replace("¶", "\n") for part in row.split(separator)]


def cells(text):
    return [cell for row in table(text) for cell in row]


def pairs():
    """(reference, answer, are they the same?) of the table."""
    for row in table(PAIRS, " ≠ "):
        reference, *right = row[0].split(" ~ ")
        yield from ((reference, answer, True) for answer in right)
        yield from ((reference, answer, False) for answer in "".join(row[1:]).split(" ~ ") if answer)


def judged(reference, response):
    """(the answer found in a response, is it the same as the reference?)"""
    answer = judge.answer_of(response)
    return answer, answer is not None and judge.same(reference, answer)


def test_pairs():
    assert not [pair for pair in pairs() if judge.same(*pair[:2]) is not pair[2]]


def test_no_false_accepts():
    """Of the answer found in a text."""
    assert not [(row[0], text) for row in table(GUARDS) for text in row[1:] if judged(row[0], text)[1]]


@pytest.mark.parametrize("responses", [GIVES, JOINED_BOXES, LAST_BOX, MONEY])
def test_a_response_gives_its_answer(responses):
    cases = [(row[0], text) for row in table(responses, " @ ") for text in row[1:]]
    assert not [(*case, judged(*case)[0]) for case in cases if not judged(*case)[1]]


def test_boxes_that_are_not_joined_give_one_answer():
    assert not [text for row in table(LAST_BOX, " @ ") for text in row[1:] if judged("5, 6", text)[1]]


@pytest.mark.parametrize("number", ["5", "$5$"])
@pytest.mark.parametrize("sentences, meant", [(REFUSED, False), (MEANT, True)])
def test_what_a_sentence_says_of_a_number(sentences, meant, number):
    texts = [text.replace("G", number).replace("…", "The answer is") for text in cells(sentences)]
    assert not [(text, judged("5", text)) for text in texts if judged("5", text)[1] is not meant]


@pytest.mark.parametrize("prose", [
    "So $\\boxed{%s}$ is it, for 3 reasons.", "Final Answer: The final answer is $%s$. I hope it is correct.",
    "We get\n$$%s$$", "2+2=4\n#### %s", "<think>3</think>\n**Answer:** $%s$",
    "Therefore, the answer is \\(%s\\)"])  # fmt: skip
def test_prose_changes_no_verdict(prose):
    """Every pair of the table once more, within a response."""
    plain = [pair for pair in pairs() if not re.search(r"oxed|\*\*|\$", pair[1])]
    assert not [pair for pair in plain if judged(pair[0], prose % pair[1])[1] is not pair[2]]


@pytest.mark.parametrize("response", ["", "  \n", "So,", "<think>", "<think>it is 5", "<|im_end|>",
                                      "The answer is correct"])  # fmt: skip
def test_no_answer_is_none(response):
    assert judge.answer_of(response) is None


MUTATIONS = r"""
\text{not } R ~ \text{at least } R ~ R \text{ if } x > 0 ~ R \text{ or } 77 ~ R, 77 ~ \sqrt{R + 1}
  ~ (R)i + 1 ~ x > R ~ R + 1 ~ R \text{ million} ~ [R, 0) ~ (R)^2 + 3 ~ R + z ~ R_{17}
"""
REFERENCES = r"""
5 ~ -3 ~ 0.15 ~ \frac{3}{4} ~ 3\sqrt{13} ~ \frac{\pi}{2} ~ 6-5i ~ x^2+3x-6 ~ (3, \frac{\pi}{2}) ~ 1,-2
  ~ [2,7) ~ (-\infty, 2) \cup (3, \infty) ~ 1 \pm \sqrt{19} ~ \{1, 2, 3\} ~ 90^\circ ~ \$18.90 ~ 20\%
  ~ y = 2x + 3 ~ \text{even} ~ \begin{pmatrix} 1 \\ 2 \end{pmatrix} ~ \text{(C)} ~ 2k+2 ~ \cot x
  ~ 15\text{ cm}^2 ~ 58,500 ~ 52_8 ~ x \in [-2,7] ~ \log_2 3 ~ 137 \frac{1}{2} ~ 5x - 7y + 11z = 4
"""


def near_misses(reference):
    yield from (mutation.replace("R", reference) for mutation in cells(MUTATIONS))
    yield re.sub(r"\d", lambda m: str((int(m[0]) + 1) % 10), reference, count=1)
    yield re.sub(r"\d+", lambda m: m[0] + "1", reference, count=1)
    sign = f"{reference} - 1" if re.search("[,=]", reference) else f"-{reference}"
    yield reference.replace("-", "", 1) if "-" in reference else sign


def test_near_misses_of_references():
    """References of every kind, each mutated in every way."""
    cases = [(reference, text) for reference in cells(REFERENCES) for text in near_misses(reference)]
    assert len(cases) > 500 and not [case for case in cases if case[0] != case[1] and judge.same(*case)]


def test_the_reference_may_be_prose():
    assert judge.same("The roots are $x = \\boxed{2}$ and $x = \\boxed{3}$.", "3, 2")
    prose = "So the final answer is $\\frac{1}{2}$."
    assert judge.same(prose, "0.5") and not judge.same(prose, "2")


@pytest.mark.parametrize("answer, question, repeated", [
    ("2+2", "What is $2 + 2$?", True), ("\\frac{6}{8}", "Simplify $\\dfrac{6}{8}$.", True),
    ("2+2", "What is $1+2+2-1$?", False), ("2x+1=5", "Solve $2x + 1 = 5$ for $x$.", True),
    ("4", "What is the square of 2, which is 4?", False)])  # fmt: skip
def test_a_repeated_question_is_no_answer(answer, question, repeated):
    assert judge.repeats(answer, question) is repeated
    verdict = judge.verdict({"kind": "math", "prompt": question, "answer": "4"}, answer)
    assert (verdict == (False, "repeats the question")) is repeated


def test_groups():
    """The same in any order, without a chain from 20 over 20% to 0.2 or from (1, 2) over 1, 2 to (2, 1)."""
    wanted = [group.split(" ~ ") for group in (
        r"1 ~ 1.0 ~ \frac{2}{2} ~ x=1", r"2 ~ \sqrt4", "1/3", "0.33", "0.333333", r"1,2 ~ \{2,1\}", "(1,2)",
        "(2,1)", r"x>2 ~ (2,\infty)", r"20\% ~ 20", "0.2", "5 ~ x=5 ~ x = 5.0", "9^{9^9}",
        "who knows ~ Who knows.")]  # fmt: skip
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
    "0." + "1" * 900 + "2...", r"0.\overline{" + "3" * 300 + "}", "-" * 380 + "1", r"\pm 1" * 100, "1" + "=1" * 190,
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
    """Steps are counted, not seconds, so that no verdict depends on how busy the machine is."""
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
