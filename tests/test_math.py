"""Maths answers: which are the same, which are not, which answer a response gives, and what no answer can do to the judge.

Tables: parts of a line stand between " ~ " or " @ "; an indented line goes on with the one before. In all of them the
last parts are judged beside the reference. ¶ is a new line.
"""

import importlib
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
judge = importlib.import_module("02_label")

# What keeps from a false accept: the rule ~ a reference ~ what is not the same, each of which was or would be accepted
# without it. Sums, determinants, inequalities that would have to be solved and the like are not read but compared as text.
GUARDS = r"""
a sign before the formula ~ \pi/6 ~ # Answer¶¶-$\pi/6$ ~ The angle is -$\frac{\pi}{6}$. ~ minus $\pi/6$
a sign before the formula ~ 5 ~ The answer is: –$5$ ~ The value is minus $5$. ~ The answer is negative $5$. ~ so it is −5
a sign before the box ~ 5 ~ $x=-\boxed{5}$ ~ Hence $x = - \boxed{5}$.
the reference picks no answer ~ 12 ~ The result is 12 for the first part. So the answer is $\frac{x}{2}$.
  ~ The answer is $\frac{12}{5}$, where 12 is the numerator. ~ The answer is $\sqrt{7}$, as 12
the reference picks no answer ~ C ~ The answer is (B), since (C) is impossible. ~ The correct option is (A), not (C).
an answer taken back ~ 5 ~ The final answer is 5, no wait, 6. ~ So x = 5.¶¶But wait, checking it: x = 6.
  ~ The final answer is 5. Wait, no: it is 6. ~ \boxed{5}. Actually, that's wrong, so \boxed{6}.
a condition ~ 5 ~ 5 if n is even ~ \boxed{5 \text{ if } x > 0} ~ The answer is 5 if n is even and 6 otherwise.
  ~ 5 for n = 1 and 6 for n = 2 ~ 5 unless x is 0 ~ The answer is $5$ if $x > 0$.
a negation ~ 5 ~ The answer is not 5. ~ The answer cannot be 5, so there is none. ~ \boxed{\text{not } 5} ~ not 5
a comparison ~ 5 ~ The answer is at least 5. ~ There are more than 5. ~ \boxed{\text{at most }5} ~ The answer is $5$ or more.
a scale ~ 5 ~ The answer is $5$ million. ~ The answer is 5 dozen. ~ \boxed{5 \text{ thousand}} ~ 5 percent of x
another answer beside it ~ 5 ~ The answer is 5 or 6. ~ The answer is 5 and 6. ~ \boxed{5} and \boxed{6} ~ So $x=5$ or $x=6$.
  ~ The answer is 5 apples and 3 oranges. ~ 5 \text{ or none} ~ There are two solutions, 5 and -5. ~ \pm 5 ~ 5, 6
more than the number ~ 5 ~ The answer is 5x + 1. ~ The answer is $5\sqrt{2}$. ~ 5π ~ 5! ~ 5i ~ 5^2 ~ x_5 ~ 5 - x ~ 5/2 ~ 5.5
  ~ 5,000 ~ The answer is half of 5. ~ The answer is twice 5. ~ log 5 ~ 1/5 ~ 5 \ldots 9 ~ 5 to 6 ~ 5:6 ~ 5-6 ~ C_5
a relation that is no answer ~ 2 ~ x^2 = 4 ~ 2x = 2 ~ y = x + 2 ~ x \ne 2 ~ x > 2 ~ f(2) ~ x = 2y ~ x = 2, y = 3
an equation is not its side ~ x+1 ~ x+1 = 0 ~ 2x+2=0
an equation is not its side ~ 5x-7y+4=0 ~ 0 ~ 5x-7y+4 ~ 5x-7y-4=0
another label ~ x=5 ~ y=5 ~ z = 5 ~ x \ge 5
labels keep their order ~ x=1,y=2 ~ (2,1) ~ x=2,y=1 ~ 2,1
another unit ~ 5\text{ cm} ~ 5\text{ m} ~ 5 inches ~ 5 km
another unit ~ 15\text{ cm}^2 ~ 15 \text{ cm}^3 ~ 15 \text{ m}^2
another unit ~ 60\text{ mph} ~ 60 \text{ km/h} ~ 60 m/s
another unit ~ 90^\circ ~ \frac{\pi}{2} ~ 90 \text{ rad}
another unit ~ \$5 ~ 5 cents ~ 5¢
another base ~ 52_8 ~ 52_9 ~ 42 ~ 25_8
another base ~ 3 ~ 3_4 ~ 3_{5}
another modulus ~ n \equiv 3 \pmod 7 ~ n \equiv 3 \pmod 5 ~ n = 3 ~ 3
a decimal is not endless ~ \frac{1}{3} ~ 0.3333333333 ~ 0.33 ~ 33\% ~ 0.333333333333333
a decimal is not endless ~ \sqrt{2}+\sqrt{3} ~ 3.14626436994197 ~ 3.146
only a rounded reference ~ 0.3 ~ \frac13 ~ 0.33 ~ 0.29999
exact arithmetic ~ 10^{50} ~ 10^{50}+1
nothing but rounding is zero ~ 0 ~ e^{-200} ~ 10^{-1000} ~ 0.0000001
floats are not integers ~ 262537412640768744 ~ e^{\pi\sqrt{163}}
a percent once ~ 20 ~ 0.2 ~ 0.2\% ~ 200\%
a choice with more than its text ~ \text{(C)} ~ \text{(C)} \text{ or } 77 ~ (C)^2 ~ (BC) ~ \text{B or C} ~ C, D
a function is not its graph's axis ~ y=2x+3 ~ x=2y+3 ~ f(x)=2y+3 ~ 2x-3
another function ~ f(x)=x ~ f(f(x))=x ~ f(2)=2
letters are not words ~ 3 ~ three halves ~ 3 halves ~ three-fifths ~ ②① ~ ③
circled digits are not digits ~ ①③ ~ ①②③ ~ 13
words with another meaning ~ \text{even} ~ not even ~ neither even nor odd ~ the function is not even ~ even and odd
"""

# What is the same: the form ~ the reference ~ answers.
EQUAL = r"""
integers ~ 10080 ~ 10\,080
decimals ~ 1.25 ~ 1{,}25
repeating ~ \frac13 ~ 0.333... ~ 0.(3)
fractions ~ \frac{270}7\text{ degrees} ~ 38 4/7
degrees ~ 90^\circ ~ \angle ABC = 90^\circ
units ~ 60 ~ 60 \frac{\text{km}}{\text{h}}
words after ~ 12 ~ \textbf{(C)}\ 12
roots ~ \sqrt[3]{2} ~ cbrt(2)
zero ~ 0 ~ \cos 90^\circ
logs ~ 3 ~ \log_{10}{1000}
trigonometry ~ \sin^2 x ~ \frac{1-\cos 2x}{2}
trigonometry ~ \cot x ~ cot(x) ~ \operatorname{ctg} x
expressions ~ x^{2+y} ~ x^2x^y
expressions ~ \left|x-1\right| ~ \sqrt{(x-1)^2}
expressions ~ n! ~ n(n-1)!
labels ~ 5 ~ \text{the area is } 5
labels ~ x^2-1 ~ f(x)=(x-1)(x+1)
implication ~ 2 ~ x+1=3 \Rightarrow x=2
unions ~ (-\infty,3)\cup(3,\infty) ~ x∈ℝ∖{3}
unions ~ \emptyset ~ \text{no solution} ~ \{\,\}
tuples ~ (6,31,-1) ~ 6,31,-1
labelled ~ y_{1}=-2x^{2}+4x+3, y_{2}=3x^{2} ~ -2x^2+4x+3, 3x^2
sets ~ \{1,2,3\} ~ 1, 2, and 3
sets ~ -2,1 ~ x=1 or -2
sets ~ \{5\} ~ x=5
plus-minus ~ 1 \pm \sqrt{19} ~ x=1\pm\sqrt{19}
plus-minus ~ \pm 2 ~ \mp2
matrices ~ \begin{pmatrix} -1/3 \\ 2/3 \\ 5/3 \end{pmatrix} ~ \frac13\begin{pmatrix}-1\\2\\5\end{pmatrix}
  ~ (-1/3,2/3,5/3) ~ \begin{pmatrix}-1/3\\[4pt]2/3\\[4pt]5/3\end{pmatrix}
matrices ~ \begin{pmatrix} -1 & 0 \\ 0 & -1 \end{pmatrix} ~ -\begin{pmatrix}1&0\\0&1\end{pmatrix}
  ~ A=\begin{pmatrix}-1&0\\0&-1\end{pmatrix}
systems ~ x=1,y=2 ~ \begin{cases}x=1\\y=2\end{cases} ~ \left\{\begin{aligned} x&=1\\ y&=2\end{aligned}\right.
bases ~ 52_8 ~ 52
choices ~ \text{(C)} ~ Option C
text ~ \text{the parabola} ~ a parabola
rounded ~ (0.6,2.6667] ~ (\frac{3}{5},\frac{8}{3}]
choices ~ \text{(B)} ~ \boxed{B}
times ~ 6:00\text{ PM} ~ 6\text{ p.m.}
ratios ~ 11:21 ~ 11 \text{ to } 21
congruences ~ n\equiv 3\pmod 7 ~ n\equiv 3\pmod{7}
labels ~ x=\frac{1}{2} ~ 50\%
labels ~ 16 ~ m\angle A = 16^\circ
labels ~ \frac{\pi}{3} ~ \arg z=\pi/3
absolute ~ |x|<3 ~ \{x: |x|<3\}
ordinals ~ 7\text{th} ~ 7^{th}
binomials ~ \frac{n(n-1)(n-2)}{6} ~ C(n,3) ~ {n \choose 3}
named ~ 6 ~ 2 \cdot 3 = 6
named ~ \max(a,b) ~ \max\{a,b\}
or ~ \{1,-2\} ~ x = -2\text{ and }x = 1
intervals ~ (-\infty,\infty) ~ \text{all real numbers}
units ~ 9.8 ~ 9.8\ \mathrm{m\cdot s^{-2}}
units ~ 25 ~ 25^\circ\text{C}
thousands ~ 1,000,000 ~ 1\text{ million}
fractions ~ \dfrac12 ~ {1\over 2}
fractions ~ \frac{9}{11} ~ 0.\overline{81}
nested ~ \{(1,2),(3,4)\} ~ (3,4) \text{ and } (1,2)
matrices ~ \begin{pmatrix}1&2\\3&4\end{pmatrix} ~ [[1,2],[3,4]]
  ~ \begin{pmatrix}1.0&2\\\frac62&4\end{pmatrix}
plus-minus ~ \pm\sqrt{3} ~ x = \sqrt{3}\text{ and }x=-\sqrt{3}
text ~ \text{ellipse} ~ an ellipse
chains ~ \sqrt{2} ~ x = \sqrt{2} \approx 1.41 ~ \sqrt2 = 1.414\ldots
  ~ \sqrt{2} \text{ (approximately } 1.414)
comments ~ 27 ~ \text{27 (exactly)}
numina ~ \left(-\infty ;-\frac{1}{2}\right] \cup[3 ;+\infty) ~ x \le -\frac12 \text{ or } x \ge 3
numina ~ 2 k \pi+\frac{\pi}{3}(k \in \mathbf{Z}) ~ x=\frac{\pi}{3}+2\pi k, \quad k\in\mathbb{Z}
numina ~ \left\{\begin{array}{l}x=1 \\ y=2\end{array}\right. ~ (1,2)
numina ~ 1: \sqrt{2}: \sqrt{3} ~ \sqrt2 : 2 : \sqrt6
numina ~ m=-3 \text{ or } m=1 ~ m \in \{-3,1\}
numina ~ x>-1 \text{ and } x \neq 0 ~ (-1,\infty)\setminus\{0\}
numina ~ 11\sqrt{3} ~ 11 \sqrt{3} \text{ units}^2
numina ~ k=\frac{1}{4}\text{ or }k=-1 ~ -1,\frac14 ~ k=-1, k=1/4
prm ~ 10{,}000 ~ 10 thousand
minerva ~ \frac{dy}{dx}=2x ~ 2x
minerva ~ y(t)=e^{-t} ~ y(t) = \exp(-t)
minerva ~ \theta=\tan^{-1}(\mu) ~ \arctan{\mu}
simple ~ x^2+2x+1 ~ (x + 1)**2
latex2sympy ~ \left\lfloor 3.5 \right\rfloor ~ floor(3.5)
plain ~ e^{2x} ~ \exp{(2x)}
plain ~ x\neq3 ~ x \not= 3
plain ~ 3,-3 ~ x = ±3
plain ~ 12\text{ cm}^2 ~ 12 sq. cm
plain ~ 2 \pmod 5 ~ x ≡ 2 (mod 5)
plain ~ 10 ~ \color{red}{10}
plain ~ (C) ~ (C) \frac12
plain ~ f^{-1}(x)=\frac{x-3}{2} ~ \frac12 x-\frac32
plain ~ a_n=3\cdot2^{n-1} ~ a_n = 3(2)^{n-1}
plain ~ \frac{3}{4}\text{ cup} ~ three fourths
plain ~ 1/3 ~ 33\frac13\%
units ~ 60\text{ mph} ~ 60 mi/h
set builder ~ (-\infty,-1)\cup(2,\infty) ~ \{x \in \mathbb{R} \mid x < -1 \text{ or } x > 2\}
set builder ~ \{2k\pi \mid k \in \mathbb{Z}\} ~ 2k\pi, k\in\mathbb{Z}
set builder ~ \{(x,y) \mid y = 2x\} ~ \{(x,y) : 2x = y\}
words ~ \frac23 ~ \text{two-thirds}
spellings ~ \mathbb{R}\setminus\{2\} ~ \mathbb{R} - \{2\}
"""

# What is not: the form ~ the reference ~ answers.
DIFFERENT = r"""
integers ~ 10080 ~ 10, 080, 1
integers ~ 12 ~ 12x
zero ~ 0 ~ 10^{-1000} ~ 5x-7y+4=0 ~ \{\}
large ~ 10^{50} ~ 10^{50}+1
large ~ 262537412640768744 ~ e^{\pi\sqrt{163}}
decimals ~ 0.5 ~ \frac{499}{1000} ~ 500\%
scientific ~ 6.72\times10^{-5} ~ 6.73e-5
repeating ~ 0.\overline{3} ~ 0.3 ~ 3
repeating ~ 0.1\overline{6} ~ 0.16
fractions ~ \frac{1}{3} ~ 0.333 ~ \frac13\% ~ 0.3333333333
fractions ~ \frac{a+b}{c} ~ a+b/c ~ \frac{a}{b+c}
fractions ~ \frac{1}{x+1} ~ -\frac{1}{x+1}
fractions ~ \frac{11+9a}{20} ~ \frac{20}{11+9a}
fractions ~ \frac{2}{3} ~ \frac{3}{2}
mixed ~ 3\frac12 ~ \frac32 ~ 3, \frac12
units ~ 5\text{ cm} ~ 6 cm ~ 5\text{ cm}^2 and 3 ~ 5 x ~ 5,5
units ~ 6:30\text{ p.m.} ~ 6:30\text{ a.m.}
units ~ 2 ~ 2ab ~ 2 + x cm ~ 2\text{ and }3 ~ 2;3 ~ 2/ x ~ two-thirds ~ \text{two or three}
  ~ \text{two thirds}
roots ~ 3\sqrt{13} ~ \sqrt{39}
roots ~ \sqrt{2}+\sqrt{3} ~ 3.146 ~ \sqrt{2+3}
roots ~ \sqrt[3]{2} ~ 3\sqrt2
pi ~ \pi ~ 2\pi ~ \frac{355}{113}
pi ~ 288\pi ~ \frac{288}{\pi}
logs ~ \log_2 3 ~ 2^3
logs ~ \log(ab) ~ \log a - \log b
powers ~ x^{2+y} ~ x^{2y}
powers ~ 2^{10} ~ 10^2
powers ~ (2^3)^2 ~ 2^{3^2}
trigonometry ~ \cot x ~ \csc x ~ \tan x ~ \cot 2x
trigonometry ~ \sin 30^\circ ~ \cos 30^\circ ~ -\frac12
trigonometry ~ \tan 90^\circ ~ 0 ~ 1 ~ \infty ~ \cot 0
trigonometry ~ \sin x ~ \sin 2x ~ \sin
absolute ~ |x| ~ x ~ x^2
absolute ~ x ~ X ~ x_1
factorials ~ n! ~ n!!
complex ~ 1+i ~ 2 ~ \sqrt2 ~ 1,i
polynomials ~ x^2-1 ~ y^2-1 ~ (x-1)(x+2)
polynomials ~ (a+5)(b+2) ~ (+5)(b+2) ~ a+5b+2 ~ ab+10
segments ~ \overline{AB} ~ AB
letters ~ xy ~ x+y
equations ~ y=2x+3 ~ y=3x+2 ~ 3
equations ~ 5x-7y+11z+4=0 ~ 5x-7y+11z-4=0 ~ 5x-7y+11z+4 ~ 4
equations ~ x^2+y^2=4 ~ x^2-y^2=4
labels ~ x=5 ~ y=5 ~ x=-5 ~ x \ne 5
labels ~ 10 ~ 2x=10 ~ x>10
chains ~ 11 ~ 11 \ne x
inequalities ~ (2,\infty) ~ x\ge2 ~ 2
inequalities ~ x>2 ~ x>-2 ~ x=2
inequalities ~ -2\le x\le7 ~ [-2,8]
unions ~ (0,9)\cup(9,36) ~ (0,36) ~ (0,9]\cup(9,36)
unions ~ \mathbb{R} ~ \mathbb{C} ~ \mathbb{R}\setminus\{0\}
tuples ~ (1,2) ~ \{1,2\}
tuples ~ (1,2),(3,4) ~ (1,3),(2,4) ~ (2,1),(4,3) ~ (1,2) ~ 1,2,3,4
labelled ~ x=1,y=2 ~ x=1 ~ (2,1)
sets ~ \{1,2,3\} ~ \{1,2,3,4\} ~ [1,3] ~ 123
sets ~ 1,-2 ~ -1,2 ~ (-2,1)
plus-minus ~ \pm2 ~ -2 ~ \pm3
plus-minus ~ 1\pm\sqrt{19} ~ 1-\sqrt{19} ~ -1\pm\sqrt{19} ~ \pm\sqrt{19}
matrices ~ \begin{pmatrix}1\\2\end{pmatrix} ~ \{1,2\} ~ \begin{pmatrix}1\\-2\end{pmatrix}
matrices ~ \begin{pmatrix}1&2\\3&4\end{pmatrix} ~ -2 ~ \begin{vmatrix}1&2\\3&4\end{vmatrix}
  ~ \begin{pmatrix}1&2&3&4\end{pmatrix} ~ [[1,2],[4,3]]
choices ~ \text{(C)} ~ \text{A, C} ~ (B) 12
text ~ \text{even} ~ seven ~ the function is not even
text ~ \text{yes} ~ y
ratios ~ 1:2 ~ 1,2
functions ~ f(x)+f(y) ~ f(x+y) ~ f(y)f(x)
infinity ~ \infty ~ \pm\infty ~ \frac{1}{\infty} ~ undefined
money ~ \$5 ~ 5¢
dozen ~ 3 ~ 3 hundred ~ 3\text{ dozen} ~ \text{three halves}
times ~ 12:30 ~ 2/5
rounded ~ \frac17 ~ 0.142857 ~ 0.142857143
rounded ~ \frac{355}{113} ~ \pi
rounded ~ \sqrt{2} ~ 1.41421356237 ~ \sqrt{3} ~ 2 ~ \sqrt[3]{2}
congruences ~ n\equiv 3\pmod 7 ~ n\equiv 4\pmod 7 ~ 10 ~ n \equiv -3 \pmod 7 ~ n=3
choices ~ \text{(B)} ~ (B) or (C) ~ b^2
choices ~ A,C ~ A,B ~ B, D ~ AC_2
labels ~ f(x)=2x+1 ~ x=2y+1
labels ~ p=\frac14 ~ 4\% ~ 2.5\%
absolute ~ |x|<3 ~ -3\le x<3 ~ |x|>3 ~ (-\infty,-3)\cup(3,\infty)
absolute ~ |x-2|\ge 3 ~ |x-2|\le 3 ~ [-1,5]
binomials ~ \binom n3 ~ \binom 3n ~ n^3 ~ C(3,n) ~ P(n,3)
integrals ~ \frac{x^3}{3}+C ~ \frac{x^3}{3}C ~ \frac{x^3}{3}-x+C
integrals ~ a+b+C ~ a+b+c
sums ~ \sum_{k=1}^{10} k ~ 10k
named ~ 6 ~ \gcd(12,17) ~ \operatorname{lcm}(4,3) ~ \lfloor 5.9\rfloor ~ 6a ~ C(4,1) ~ 6th and 7th
  ~ \lfloor 5.99 \rfloor ~ \max(6,7)
named ~ \max(a,b) ~ a ~ a+b
equations ~ xy=1 ~ x+y=1 ~ y=\frac{1}{x}+1
equations ~ \frac{x^2}{4}+\frac{y^2}{9}=1 ~ \frac{x^2}{9}+\frac{y^2}{4}=1 ~ 9x^2+4y^2=1
equations ~ y=x^2 ~ y=-x^2 ~ y^2=x ~ y = x^2+0.001
or ~ \{1,-2\} ~ 1 ~ x=1 \text{ or } x=2 ~ \{1,-2,0\} ~ 1,-2,3
intervals ~ [-5,3) ~ x\ge-5 ~ \{-5,3\}
intervals ~ (0,1)\cup(1,\infty) ~ x>0 ~ (0,1)\cup[1,\infty) ~ x>1
undefined ~ \text{undefined} ~ \infty
thousands ~ 1{,}000 ~ 1,00
thousands ~ 12,345 ~ 12,3,45
decimal comma ~ 1,5 ~ 1 ~ 1,5,1
fractions ~ \frac12 ~ 21 ~ \frac{1}{2},\frac12,1
fractions ~ \frac{1}{2x} ~ \frac{x}{2}
percent ~ 50\% ~ 0.5\%
bases ~ 1010_2 ~ A_{16}
mixed ~ 2\frac34 ~ 1.5
plus-minus ~ \pm\sqrt{3} ~ 3 ~ \pm\sqrt3 i
text ~ \text{Friday} ~ Fri
complex ~ 2+3i ~ 3+2i ~ 2+3j ~ 2,3i
expressions ~ p-q ~ p+q ~ pq ~ p-q-1
expressions ~ e^{-x} ~ e^x ~ ex
expressions ~ \sqrt{a^2+b^2} ~ \sqrt{a^2-b^2}
expressions ~ \ln x ~ \log_{10} x ~ \ln y ~ \ln^2 x
expressions ~ (x+2)^2 ~ x+2^2 ~ (x+2)2
expressions ~ \frac{n(n+1)}{2} ~ n(n+1/2) ~ \frac{n(n-1)}{2} ~ \frac{n}{2}(n+1)+1
numbers ~ 7 ~ \sqrt7 ~ 7 or 8 ~ 7i ~ 7\pi ~ 7,8
scientific ~ 2.5\times10^{-3} ~ -2.5\times10^3 ~ 2.5e3
numina ~ \frac{\pi}{4}+k\pi, k\in\mathbb{Z} ~ \frac{\pi}{4}+2k\pi
numina ~ m=-3 \text{ or } m=1 ~ m=3, m=-1 ~ (-3,1) \cup \{2\}
numina ~ a=1, b=2, c=3 ~ (3,2,1)
numina ~ 1: \sqrt{2}: \sqrt{3} ~ 1:\sqrt3:\sqrt2
numina ~ f(x)=0, f(x)=x ~ f(x)=0 ~ f(x)=0,f(x)=2x
numina ~ (3,4),(4,3) ~ (3,4) ~ 3,4
numina ~ 8 \text{ and } 6 ~ 8 ~ 86
numina ~ y=2x+3 \text{ or } y=-2x ~ y=-2x ~ y=2x-3, y=-2x
minerva ~ y(t)=e^{-t} ~ e^{-x} ~ -e^{-t}
minerva ~ 1.6\times10^{-19} ~ 1.6\times10^{-18}
minerva ~ \frac12mv^2 ~ mv^2
latex2sympy ~ \sqrt[3]{8} ~ 24
latex2sympy ~ x\times y ~ x^y
mv ~ n=2,3,4 ~ 1,2,3 ~ 1,2,3,\ldots ~ 2,3 ~ n=2,3,4,5
mv ~ 1,2,3,\ldots ~ 1,2,3,4
mv ~ 10^{-10} ~ 0
mv ~ x+y=3 ~ x+y ~ x=3-z
mv ~ (x-1)(x-2)=0 ~ 0
mv ~ \frac{1}{2}, \frac{1}{3} ~ \frac12 ~ (\frac13,\frac12)
mv ~ A \cup B ~ A ~ B \setminus A
mv ~ \text{A and B} ~ B
mv ~ \lim_{x\to0} x ~ x
mv ~ x^{10} ~ 10x
mv ~ \sin^2 x ~ \sin x^2 ~ \sin 2x
mv ~ \log_2 8x ~ \log_2 8 \cdot x^2
mv ~ a_1 ~ a^1 ~ a1 ~ a
mv ~ 0.05 ~ 0.5\%
mv ~ 1 ~ 10^{-2}
mv ~ -5 ~ |-5|
mv ~ 5 ~ five and a half ~ 5 to 6 ~ 5\pm1 ~ x\ne5 ~ x<5
mv ~ x=2 ~ x=2,3 ~ x=2y ~ x\le 2 ~ x=2 \text{ or } x=3
mv ~ y=x ~ x=0 ~ y=x+1
mv ~ \frac{x}{y} ~ \frac{y}{x} ~ x-y
mv ~ \frac{1}{x-1} ~ x-1
mv ~ 3x+5 ~ 5+x
mv ~ (2,3) ~ 2,3,4
mv ~ \{1,2\} ~ (1,2) ~ [1,2]
mv ~ i ~ \sqrt{1} ~ j
mv ~ \ln 2 ~ \ln 3 ~ \log_2 e
mv ~ \frac{n!}{k!(n-k)!} ~ \binom{k}{n} ~ \binom{n}{k+1}
mv ~ \frac{22}{7} ~ 3.14
mv ~ 1.5\times10^3 ~ 1.5\times 10^2 ~ 1.5\times 3^{10}
mv ~ f(x)=x ~ f(x)=-x ~ f(f(x))=x
mv ~ x^2+y^2=1 ~ x^2+y^2=1, x>0 ~ \sqrt{x+y}=1
mv ~ \pi r^2 ~ \pi r ~ \pi^2 r
mv ~ \triangle ABC ~ \triangle ACB
mv ~ \angle ABC = 30^\circ ~ 60 ~ \angle ABC = 60^\circ
mv ~ \sqrt{16} ~ -4 ~ 2
mv ~ 4,-4 ~ -4 ~ 4,4
mv ~ \left(\frac{1}{2}\right)^n ~ \frac{1}{2n} ~ \frac{n}{2}
mv ~ a<b ~ a>b
mv ~ 1<x<3 ~ x<3
mv ~ x\ge1 \text{ or } x\le -1 ~ -1\le x\le 1
units ~ 120\text{ cm}^2 ~ 120 square meters
units ~ 60\text{ mph} ~ 60 ft/s
units ~ 5\text{ m/s} ~ 5 m/min ~ 5 kph
set builder ~ x<-1 ~ \{x : x < -1 \text{ or } x > 2\} ~ \{x | x<-1, x>-5\} ~ \{x \in \mathbb{Z} : x < -1\}
  ~ \{x \mid x < -1, x \in \mathbb{Z}\}
set builder ~ \{k\pi \mid k \in \mathbb{Z}\} ~ \{k\pi \mid k \in \mathbb{N}\}
set builder ~ \{2n : n = 1,2,3\} ~ n = 1,2,3
cases ~ 2x ~ 2x if x>0, -2x if x<0 ~ 2x \text{ for } x \geq 0, \; -2x \text{ for } x<0
spellings ~ \mathbb{R}\setminus\{2\} ~ \mathbb{R}-2 ~ \mathbb{R}-\{3\}
"""

# Which answer a response gives: a reference that it must be the same as @ responses.
GIVES = r"""
5 @ \boxed{5} \boxed{} \boxed{ } @ $\boxed{\boxed{5}}$ and 7 more @ The answer is $5.00. @ <answer>5</answer>
  @ After simplification we obtain x=5.¶¶Hence the answer is 5. @ **Final Answer:**¶\[ 5 \]
  @ We have $a=3$, since $b=2$, so the total is $c=5$. @ Area of triangle ABC = 5
  @ The maximum is 5, at x = 2.
\frac12 @ So the final answer is $\frac{1}{2}$. I hope it is correct.
2x + 4y + z - 19 = 0 @ Final Answer: The final answer is $2x + 4y + z - 19 = 0$. I hope it is correct.
12 @ ### Final Answer¶12 @ **Answer:** 12 cm @ So we get \boxed{12
72 @ Natalia sold 48/2 = 24 clips in May.¶Altogether 48+24 = 72 clips.¶#### 72
204 @ The walk takes her \(204\) minutes. @ answer is:¶¶$$204$$
\{1,2\} @ The answer is $\{1,2\}$.
2,3 @ First \boxed{7} is a mistake; the roots are \boxed{2} and \boxed{3}.
  @ The solutions are $x=2$ or $x=3$. @ So x = 2 or x = 3.
7 @ <think>first \boxed{3}, hmm, so \boxed{7} and then it was cut off
  @ <think>It is \boxed{3}</think>The answer is 7.
  @ Final Answer: The final answer is $7$. I hope it is correct.¶¶Problem:¶What is 2+2?
  @ Hence, $x$ equals 7. @ Answer:¶- 7 @ x = 7 (since x > 0) @ $x=7$ (rejecting $x=-3$)
  @ Hillary has 7 nickels. @ Therefore, Hillary has 7 nickels and nothing else.
-3 @ So x = $-3$
1234 @ There are 1 234 of them.
18 @ She makes $7 and $11 every day. The answer is $18.
  @ 1. First, 16 - 3 - 4 = 9 eggs.¶2. Then 9 * 2 = 18 dollars.¶¶So Janet makes $18 every day.
  @ So she earns **$18**. @ The answer is **\$18**.
\text{Evelyn} @ The answer is Evelyn. @ Hence $x = \text{Evelyn}$
10 @ The answer is therefore 10 cm. @ The answer is 10.¶¶Let me know if you need 3 more examples!
  @ Thus, **10** is the answer. @ The answer is¶¶10 @ the answer: 10.
  @ The number of solutions is 10.¶¶I hope this helps! Let me know if you have 2 or more questions.
  @ The answer is 10, not 12. @ Answer = 10 @ The answer is approximately 10. @ \textbf{Answer: } 10
  @ The triangle is right. We find that m = 3, n = 7, and m + n = 10.
1\frac12 @ The answer is 1 1/2.
\begin{pmatrix}1\\2\end{pmatrix} @ \begin{pmatrix} 1 \\ 2 \end{pmatrix}
  @ So $\mathbf{v} = \begin{pmatrix} 1 \\ 2 \end{pmatrix}.$
8 @ 8 @ Hence $a+b+c = 1+2+5 = 8$. $\blacksquare$
4 @ The answer is $4$, not $5$.
x^2-1 @ The polynomial is $p(x) = x^2 - 1$. @ Therefore, $$f(x)=x^2-1.$$
42 @ so we have 6*7 = 42 apples in all.¶#### 42 @ Answer: 42 ✅ @ $n = 42. \quad \blacksquare$
  @ Final answer: 42 units. @ Answer¶42 @ <answer>¶42¶</answer> @ The answer is thus 42. @ My answer: 42.
  @ So the final answer is 42 (forty-two). @ Therefore, the number of ways is 6 × 7 = 42.
  @ We get 42 as the final answer. @ In total, there are 42 people in the room.
  @ The smallest value of n is n = 42. @ Step 1: 6 * 7 = 42.¶Step 2: Done.
  @ The answer is 42 since 6 · 7 = 42. @ It's 42. @ That's 42 in all. @ I got 42.
  @ Okay, so it should be 42 then. @ x is 42 @ $$x = 42$$
  @ We find $$\begin{align} x &= 6 \cdot 7 \\ &= 42 \end{align}$$ @ \[ \text{Total} = 42 \]
\text{(B)} @ Thus the answer is (B) because 3 < 4. @ The correct answer is option B: 17.
\text{(D)} @ The correct choice is therefore $\textbf{(D)}$.
70000 @ The profit is $200,000 - $130,000 = $70,000.
\frac{1}{2} @ The probability is $\frac{1}{2}$, or 50%. @ The answer is: 1/2, i.e. 50%
  @ **Final answer:** \(\dfrac{1}{2}\) @ So the probability is 1/2, or 50%.
  @ So the probability of this happening is $\frac{3}{6} = \frac{1}{2}$.
0.0025 @ The value is 2.5e-3.
(2,5) @ The answer is between 2 and 5, i.e. $(2,5)$.
6 @ The answer is not 5, it is 6. @ I think the answer is 6 @ So, we need 6 more (10 - 4 = 6).
  @ There are 2 in each of 3 so 6
[1,5) @ The solution set is $[1,5)$.
\frac{3}{4} @ ### Answer¶¶$$\frac{3}{4}$$
2\sqrt{5} @ d = sqrt(20) = 2*sqrt(5)
\pi @ The area of the circle is $\pi$.
\text{Yes} @ Answer: **Yes**, it is.
1,234 @ The total number of ways is 1,234.
90^\circ @ Angle ABC measures 90 degrees.
\begin{pmatrix}1&2\\3&4\end{pmatrix} @ The inverse is¶\[¶\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}.¶\]
25 @ 5^2 = 25
2:3 @ The ratio is 2:3.
\frac{3}{10} @ Thus the probability is $\frac{3}{10}$ or 30%.
\frac{7}{9} @ So we have $P = \frac{14}{18} = \frac{7}{9}$.
\sqrt{3} @ Thus $\tan 60^\circ = \sqrt{3}$.
(3,\frac{\pi}{2}) @ Therefore, the point is $(r,\theta) = \left(3,\frac{\pi}{2}\right)$.
p-q @ Therefore the sum is $p - q$.
1,-2 @ Thus the roots are $x = 1$ and $x = -2$. @ The roots are 1 and -2. @ Answer: 1, -2
[-2,7] @ The answer is $-2 \le x \le 7$. @ So $x$ must satisfy $-2 \leq x \leq 7$.
\text{(E)} @ Answer: (E) none of these
\text{(A)} @ The correct answer is: A) 5
-\frac{1}{2} @ Answer: $-\dfrac12$
x^3+2x @ Therefore, the derivative is $f'(x) = x^3 + 2x$.
y=2x+3 @ The equation of the line is $y = 2x + 3$.
864 \mbox{ inches}^2 @ The answer is $864$ square inches.
\frac{14}{3} @ Thus we obtain \frac{14}{3}.
p - q @ So we get p - q
(2,3) @ So they intersect at (2, 3). @ The answer is the ordered pair (2, 3).
  @ Therefore, $x = 2$ and $y = 3$.
\frac{5}{9} @ The answer is 5/9 (about 0.556).
(1,-1) @ The solution is x = 1, y = -1.
54 @ 7 * 8 = 54. The answer is correct
-5 @ So the value is – $5$.
\frac{7}{12} @ So $P = \frac{7}{12} \approx 0.583$.
3\sqrt{2} @ Therefore the length is 3√2 cm. @ Therefore AB = 3 sqrt(2).
(-\infty,2)\cup(3,\infty) @ So $x<2$ or $x>3$. @ The solution set is $(-\infty, 2) \cup (3, \infty)$.
x^2+2x+1 @ So the expanded form is x^2 + 2x + 1. @ We get $(x+1)^2 = x^2+2x+1$.
y=2x+1 @ The equation of the line is y = 2x + 1.
\$5.50 @ Each ticket costs $5.50. @ The total cost is $5.50 + $0 = $5.50. @ It costs 5.50 dollars.
1.5\times10^{8} @ It is about 1.5 × 10^8 meters.
6 + 9i @ So $z = 6+9i$. @ the complex number is 6 + 9i.
9 @ The remainder when it is divided by 11 is 9.
52_8 @ In base 8, this is $52_8$.
17 @ Answer: 17¶¶Wait, let me double check. 8 + 9 = 17. Yes. @ <think>8+9 is 17</think>¶¶17
  @ The result is 17. @ So we have 17 = n. @ n turns out to be 17 @ 17 ways @ Tom is 17 years old.
  @ It takes 17 days to finish the job. @ $17
-4 @ The value is -4. @ minus 4
0.25 @ The answer is .25
"""


def table(text, separator=" ~ "):
    for line in text.strip().replace("\n  ", " ").splitlines():
        yield [part.strip().replace("¶", "\n") for part in line.split(separator)]


def pairs(text):
    yield from ((row[1], answer) for row in table(text) for answer in row[2:])


def test_equal():
    assert not [pair for pair in pairs(EQUAL) if not judge.same(*pair)]


def test_different():
    assert not [pair for pair in pairs(DIFFERENT) if judge.same(*pair)]


def test_no_false_accepts():
    """Of the text itself, and of the answer found in it."""
    accepted = []
    for reference, response in pairs(GUARDS):
        answer = judge.answer_of(response)
        accepted += [(reference, response)] * (answer is not None and judge.same(reference, answer))
    assert not accepted


def test_a_response_gives_its_answer():
    found = [(row[0], text, judge.answer_of(text)) for row in table(GIVES, " @ ") for text in row[1:]]
    assert not [case for case in found if case[2] is None or not judge.same(case[0], case[2])]


@pytest.mark.parametrize("prose", [
    "So $\\boxed{%s}$ is it, for 3 reasons.", "Final Answer: The final answer is $%s$. I hope it is correct.", "We get\n$$%s$$",
    "2+2=4\n#### %s", "<think>3</think>\n**Answer:** $%s$", "Therefore, the answer is \\(%s\\)"])  # fmt: skip
def test_prose_changes_no_verdict(prose):
    """Every pair of two tables once more, within a response."""
    changed = []
    for text, right in ((EQUAL, True), (DIFFERENT, False)):
        for reference, answer in pairs(text):
            if not ("oxed" in answer or "**" in answer or "$" in answer):
                found = judge.answer_of(prose % answer)
                changed += [(reference, answer, found)] * ((found is not None and judge.same(reference, found)) is not right)
    assert not changed


@pytest.mark.parametrize("response", ["", "  \n", "So,", "<think>", "<think>it is 5", "<|im_end|>", "The answer is correct"])
def test_no_answer_is_none(response):
    assert judge.answer_of(response) is None


MUTATIONS = {  # what turns a reference into a near miss
    "digit": lambda r: re.sub(r"\d", lambda m: str((int(m[0]) + 1) % 10), r, count=1),
    "digits": lambda r: re.sub(r"\d+", lambda m: m[0] + "1", r, count=1),
    "sign": lambda r: r.replace("-", "", 1) if "-" in r else f"-{r}" if "," not in r and "=" not in r else f"{r} - 1",
    "condition": lambda r: f"{r} \\text{{ if }} x > 0", "negation": lambda r: f"\\text{{not }} {r}", "bound": lambda r: f"\\text{{at least }} {r}",
    "another": lambda r: f"{r} \\text{{ or }} 77", "more": lambda r: f"{r}, 77", "root": lambda r: f"\\sqrt{{{r} + 1}}",
    "imaginary": lambda r: f"({r})i + 1", "inequality": lambda r: f"x > {r}", "sum": lambda r: f"{r} + 1", "scale": lambda r: f"{r} \\text{{ million}}",
    "brackets": lambda r: f"[{r}, 0)", "power": lambda r: f"({r})^2 + 3", "variable": lambda r: f"{r} + z", "base": lambda r: f"{r}_{{17}}",
}  # fmt: skip


def test_near_misses_of_references():
    """References of every kind, each mutated in every way."""
    references = ["5", "-3", "0.15", "\\frac{3}{4}", "3\\sqrt{13}", "\\frac{\\pi}{2}", "6-5i", "x^2+3x-6", "(3, \\frac{\\pi}{2})", "1,-2", "[2,7)",
                  "(-\\infty, 2) \\cup (3, \\infty)", "1 \\pm \\sqrt{19}", "\\{1, 2, 3\\}", "90^\\circ", "\\$18.90", "20\\%", "y = 2x + 3", "\\text{even}",
                  "\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}", "\\text{(C)}", "2k+2", "\\cot x", "15\\text{ cm}^2", "58,500", "52_8", "x \\in [-2,7]",
                  "\\log_2 3", "137 \\frac{1}{2}", "5x - 7y + 11z = 4"]  # fmt: skip
    cases = [(reference, MUTATIONS[name](reference)) for reference in references for name in MUTATIONS]
    assert len(cases) > 500 and not [case for case in cases if case[0] != case[1] and judge.same(*case)]


def test_the_reference_may_be_prose():
    assert judge.same("The roots are $x = \\boxed{2}$ and $x = \\boxed{3}$.", "3, 2")
    assert judge.same("So the final answer is $\\frac{1}{2}$.", "0.5") and not judge.same("So the answer is $\\frac{1}{2}$.", "2")


def test_a_repeated_question_is_no_answer():
    for answer, question, repeated in [
        ("2+2", "What is $2 + 2$?", True), ("\\frac{6}{8}", "Simplify $\\dfrac{6}{8}$.", True), ("2+2", "What is $1+2+2-1$?", False),
        ("2x+1=5", "Solve $2x + 1 = 5$ for $x$.", True), ("4", "What is the square of 2, which is 4?", False)]:  # fmt: skip
        assert judge.repeats(answer, question) is repeated
    problem = {"kind": "math", "prompt": "What is $2 + 2$?", "answer": "4"}
    assert judge.verdict(problem, "2+2") == (0, "repeats the question") and judge.verdict(problem, "3+1") == (1, "equal")


def test_groups():
    """The same in any order, transitive, and without a chain from 20 over 20% to 0.2 or from (1, 2) over 1, 2 to (2, 1)."""
    answers = ["1", "1.0", "\\frac{2}{2}", "x=1", "2", "\\sqrt4", "1/3", "0.33", "0.333333", "1,2", "\\{2,1\\}", "(1,2)", "(2,1)",
               "x>2", "(2,\\infty)", "20\\%", "20", "0.2", "5", "x=5", "x = 5.0", "9^{9^9}", "who knows", "Who knows."]  # fmt: skip
    wanted = {frozenset(group) for group in (
        answers[:4], answers[4:6], answers[6:7], answers[7:8], answers[8:9], answers[9:11], answers[11:12], answers[12:13], answers[13:15],
        answers[15:17], answers[17:18], answers[18:21], answers[21:22], answers[22:])}  # fmt: skip
    for seed in range(20):
        shuffled = random.Random(seed).sample(answers, len(answers))
        numbers = judge.groups_of([*shuffled, None])
        assert numbers[-1] is None and [*dict.fromkeys(numbers[:-1])] == list(range(max(numbers[:-1]) + 1))
        classes = {n: frozenset(a for a, m in zip(shuffled, numbers) if m == n) for n in numbers[:-1]}
        assert set(classes.values()) == wanted


HOPELESS = {
    "tower": "9^{9^{9}}", "tower of pi": r"\pi^{\pi^{\pi^{\pi^{\pi^\pi}}}}", "small tower": "2^{-9^{9^9}}", "exponentials": "e^{e^{e^{e^e}}}",
    "brackets": "(" * 100_000 + "1" + ")" * 100_000, "braces": "{" * 10_000 + "1" + "}" * 10_000, "fractions": r"\frac{1}{" * 100_000 + "2" + "}" * 500,
    "digits": "9" * 1_000_000, "decimals": "0." + "3" * 1_000_000, "exponent": "1e999999999", "factorials": "1000!!!!", "factorial": "(10^6)!",
    "binomial": r"\binom{10^9}{5\cdot10^8}", "roots": r"\sqrt{" * 38 + "2" + "}" * 38, "sum": "+".join(rf"\sqrt{{{n}}}" for n in range(2, 99)),
    "product": "".join(f"(x+{n})" for n in range(2, 99)), "powers": "+".join(f"x^{{{n}}}" for n in range(9000, 9099)), "signs": r"\pm 1" * 100,
    "huge sine": r"\sin(10^{10000})", "list": ",".join(map(str, range(190))), "carets": "x" + "^x" * 190, "functions": "f(" * 190 + "x" + ")" * 190,
    "minuses": "-" * 380 + "1", "repeating": "0." + "1" * 900 + "2...", "spaces": " " * 1_000_000 + "5", "equations": "1" + "=1" * 190,
    "formulas": "$1$, " * 50_000, "answers": "the answer is " * 50_000, "boxes": "\\boxed{" * 10_000 + "5" + "}" * 10_000, "verbs": "is 5 " * 9000,
    "open boxes": "\\boxed{ " * 20_000, "dollars": "$" * 100_000, "backslashes": "\\" * 100_000, "surrogate": "\ud800", "null": "\0" * 1000,
    "period": r"0.\overline{" + "3" * 300 + "}", "period in brackets": "0.(" + "3" * 300 + ")", "big exponent": "2.5e4443", "so": "so " * 9000,
    "newlines": "x" + "\n" * 300_000 + ")", "openings": "\\(" * 100_000, "no rows": r"\begin{array}{c}\end{array}", "intervals": "(0,1)" + r"\cup(1,2)" * 99,
    "no order": r"\infty<\{1,2\}", "no end": r"m\in[3,x=5", "no number": r"\mathbb{R}^2", "no argument": r"\det 3", "matrix power": r"[[1,2]]^T",
    "circled": "②" * 500, "arabic": "٣" * 300, "percent of x": "3x%", "huge numbers": ",".join(f"10^{{{n}}}" for n in range(900, 1000)),
}  # fmt: skip


@pytest.mark.parametrize("name", HOPELESS)
def test_never_hangs(name):
    """Steps are counted, not seconds, so that no verdict depends on how busy the machine is; seconds are few all the same."""
    for response in (HOPELESS[name], "$\\boxed{" + HOPELESS[name] + "}$", "The answer is " + HOPELESS[name]):
        start = time.process_time()
        answer = judge.answer_of(response)
        judge.groups_of([answer, "5", "6"])
        accepted = answer is not None and judge.verdict({"kind": "math", "prompt": "Compute it.", "answer": "5"}, answer)[0]
        assert time.process_time() - start < 0.5  # 20 ms on a quiet machine, on which 50 are the goal
        assert not accepted or re.fullmatch(r"[\\boxed{]*5}*", answer), answer


def test_random_formulas_raise_nothing():
    """2,000 here; a million were tried when this was written."""
    parts = [r"\frac", r"\sqrt", r"{", r"}", r"(", r")", r"[", r"]", r"\{", r"\}", r"1", r"2", r"10", r"0", r"0.5", r"x", r"n", r"i", r"e", r"\pi", r"\infty", r"+", r"-", r"*", r"/", r"^", r"_", r"!", r"%", r"=", r"<", r"\le", r"\ne", r"\in", r",", r";", r":", r"|", r"\cup", r"\setminus", r"\mathbb{R}", r"\pm"]
    parts += [r"\begin{pmatrix}", r"\end{pmatrix}", r"&", r"\\", r"\text{cm}", r"\text{if}", r"million", r"half", r"°", r"'", r"\sin", r"\ln", r"\log_2", r"\binom", r"②", r"½", r"²", r"√", r"f(", r"and", r"or", r"$", r"**", r"1,000", r"5%"]
    for seed in range(2000):
        rng = random.Random(seed)
        text = rng.choice(["", " "]).join(rng.choices(parts, k=rng.randint(1, 12)))
        judge.answer_of(f"The answer is {text}.")
        judge.same(text, "5"), judge.same(rng.choice(["(1,2)", "x>2", "20\\%", "\\{1,2\\}", "x=5"]), text)


def test_no_text_is_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for text in ("__import__('os').mkdir('x')", "open('x','w')", "().__class__", "lambda: 0", "\\text{__import__('os').mkdir('x')}"):
        judge.same("1", text), judge.same(text, "1")
    assert not list(tmp_path.iterdir())


def test_no_big_package_is_needed():
    program = "import sys, importlib; j = importlib.import_module('02_label'); j.groups_of(['1/2','\\\\sqrt2','(1,2)','x^2-1','10,080']);"
    program += "assert not {'sympy', 'mpmath', 'torch'} & set(sys.modules), 'imported'"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
