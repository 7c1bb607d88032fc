"""Maths answers: which are equal, which are not, which answer a response gives, and what no answer can do to the judge."""

import importlib
import itertools
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
judge = importlib.import_module("02_label")

# A line: the form, the reference, then answers equal to it.
EQUAL = r"""
integers            ~ 10080 ~ 10,080 ~ 10{,}080 ~ 10,\!080 ~ 10\,080 ~ 10 080 ~ +10080 ~ 10080. ~ $10080$ ~ 10080.0 ~ \boxed{10080} ~ 010080
integers            ~ -7 ~ −7 ~ -7.00 ~ - 7 ~ (-7) ~ \left(-7\right) ~ {-7} ~ **-7** ~ \(-7\) ~ \mathbf{-7} ~ -\!7
thousands           ~ 11,\! 111,\! 111,\! 100 ~ 11111111100 ~ 11,111,111,100 ~ 11 111 111 100 ~ 11\ 111\ 111\ 100
thousands           ~ 58,500 ~ 58500 ~ \$58{,}500 ~ 5.85\times10^4
leading zeros       ~ 33 ~ 033 ~ 033. ~ \text{033}
decimals            ~ .35625 ~ 0.35625 ~ \frac{57}{160} ~ 0.356250 ~ 35.625\%
decimals            ~ 1.25 ~ \frac54 ~ 1\frac14 ~ 1{,}25 ~ 5/4 ~ 125\%
scientific          ~ .0000672 ~ 6.72\times10^{-5} ~ 6.72 \cdot 10^{-5} ~ 6.72e-5 ~ 6.72E-05 ~ 6.72*10^-5 ~ 6.72 x 10^{-5} ~ 6.72 × 10⁻⁵
scientific          ~ 3\times10^8 ~ 300000000 ~ 3e8 ~ 300,000,000 ~ 300 million ~ 0.3 \text{ billion}
repeating           ~ \frac13 ~ 0.\overline{3} ~ 0.\bar{3} ~ 0.333... ~ 0.(3) ~ .3333\ldots ~ 0.\overline{33} ~ 0.\dot{3}
repeating           ~ 0.1\overline{6} ~ \frac16 ~ 1/6 ~ 0.1666... ~ 0.1(6) ~ 0.166\dots
repeating           ~ 0.\overline{142857} ~ 1/7 ~ \dfrac17 ~ 0.142857142857...
fractions           ~ \frac{1}{2} ~ \frac12 ~ \frac 12 ~ \frac1{2} ~ \frac{1}2 ~ \dfrac{1}{2} ~ \tfrac12 ~ \cfrac{1}{2} ~ 1/2 ~ 1 / 2 ~ ½ ~ 0.5 ~ .5 ~ 2/4 ~ {1}/{2} ~ 1\div2 ~ 50\%
fractions           ~ -\frac{35}{9} ~ \frac{-35}{9} ~ \frac{35}{-9} ~ -35/9 ~ (-35)/9 ~ -3\frac{8}{9} ~ - \dfrac{35}{9}
fractions           ~ \frac{270}7\text{ degrees} ~ 270/7 ~ \frac{270}{7}^\circ ~ 38\frac47 ~ 38 4/7
mixed               ~ 137 \frac{1}{2} ~ 137.5 ~ 275/2 ~ 137\tfrac12 ~ 137 1/2 ~ 137½
mixed               ~ 1\frac{4}{5} ~ 9/5 ~ 1.8 ~ 1 \frac45 ~ 1+\frac45
percent             ~ 20\% ~ 20 ~ 20% ~ 20 percent ~ 20\text{ percent} ~ \frac15 ~ 0.2
percent             ~ 12.5 ~ 12.5\% ~ 12.5 \% ~ 12\frac12\% ~ 25/2 \text{ percent}
money               ~ \$32,\!348 ~ 32348 ~ \$32,348 ~ \$32348.00 ~ 32,348 dollars ~ \text{\$}32{,}348 ~ 32348\text{ dollars}
money               ~ \$18.90 ~ 18.9 ~ $18.90 ~ \$18.9 ~ 18.90\text{ USD} ~ €18.90
degrees             ~ 90^\circ ~ 90 ~ 90^{\circ} ~ 90° ~ 90\degree ~ 90 degrees ~ 90 \text{ degrees} ~ \angle ABC = 90^\circ
units               ~ 864 \mbox{ inches}^2 ~ 864 ~ 864\text{ in}^2 ~ 864 square inches ~ 864\ \mathrm{in}^2 ~ 864 \text{ square inches}
units               ~ 5.4 \text{ cents} ~ 5.4 ~ 5.4\text{ cents} ~ 5.4\,\text{cent} ~ 27/5 cents
units               ~ 15\mbox{ cm}^2 ~ 15 ~ 15\text{ cm}^2 ~ 15 cm^2 ~ 15 \mathrm{~cm}^{2} ~ 15 cm² ~ 15\,\text{cm}^2
units               ~ 60 ~ 60 miles per hour ~ 60\text{ mph} ~ 60 \text{ km/h} ~ 60 \frac{\text{km}}{\text{h}} ~ 60 m/s ~ 60\,\mathrm{m/s} ~ 60\ \text{units}
words after         ~ 12 ~ 12 apples ~ 12\text{ ways} ~ 12 \text{ square units} ~ twelve ~ \text{12} ~ 12 people ~ 12 (ways)
roots               ~ 3\sqrt{13} ~ \sqrt{117} ~ 3 \sqrt{13} ~ 3\cdot\sqrt{13} ~ 3*sqrt(13) ~ 3√13 ~ 3\sqrt13 ~ \sqrt{13}\cdot3 ~ 3(13)^{1/2} ~ 3\cdot13^{0.5} ~ \frac{39}{\sqrt{13}}
roots               ~ \frac{\sqrt{3}}{3} ~ \frac{1}{\sqrt3} ~ \sqrt{\frac13} ~ \sqrt{1/3} ~ 3^{-1/2} ~ \frac{\sqrt 3}{3} ~ (1/3)\sqrt{3} ~ \sqrt3/3
roots               ~ \sqrt[3]{2} ~ 2^{1/3} ~ 2^{\frac13} ~ \sqrt[3]2 ~ \sqrt[6]{4} ~ -\sqrt[3]{-2}
roots               ~ \sqrt{3+2\sqrt{2}} ~ 1+\sqrt{2} ~ \sqrt2+1
zero                ~ 0 ~ \sqrt{8}-2\sqrt{2} ~ \sin\pi ~ \cos 90^\circ ~ \ln 1 ~ 0.0 ~ -0 ~ e^0-1 ~ \pi-\pi
pi                  ~ 288 \pi ~ 288\pi ~ 288π ~ 288*pi ~ 288 pi ~ \pi\cdot288 ~ 288\pi\text{ cm}^3
pi                  ~ -\frac{\pi}{6} ~ -\pi/6 ~ \frac{-\pi}{6} ~ -\frac16\pi ~ -\dfrac{1}{6}\pi
pi                  ~ \frac{20000}{\pi} ~ 20000/\pi ~ 20000\pi^{-1} ~ \frac{20,000}{\pi}
logs                ~ \log_2 3 ~ \frac{\ln 3}{\ln 2} ~ \log_{2}{3} ~ \log_2(3) ~ \frac{\log 3}{\log 2} ~ \log_4 9 ~ \frac{1}{\log_3 2}
logs                ~ 2\ln 2 ~ \ln 4 ~ \ln(4) ~ 2 \ln(2) ~ \ln 2+\ln 2 ~ \log_e 4
logs                ~ 3 ~ \log_2 8 ~ \lg 1000 ~ \ln e^3 ~ \log_{10}{1000}
exponentials        ~ e^2-1 ~ e^{2}-1 ~ -1+e^2 ~ (e-1)(e+1) ~ \exp(2)-1
powers              ~ 2^{10} ~ 1024 ~ 4^5 ~ 2^{5}\cdot2^{5} ~ 1,024
powers              ~ 2^{100} ~ 4^{50} ~ 1267650600228229401496703205376
trigonometry        ~ \sin 30^\circ ~ \frac12 ~ \cos\frac{\pi}{3} ~ \cos 60^{\circ} ~ \sin(\pi/6) ~ \sin 150°
trigonometry        ~ \sin^2 x ~ 1-\cos^2 x ~ (\sin x)^2 ~ \sin^{2}(x) ~ \frac{1-\cos 2x}{2} ~ \sin^2{x}
trigonometry        ~ \cot x ~ \frac{\cos x}{\sin x} ~ \frac{1}{\tan x} ~ cot(x) ~ \operatorname{ctg} x ~ \cot(x)
trigonometry        ~ \arctan 2 ~ \tan^{-1} 2 ~ \tan^{-1}(2) ~ arctan(2) ~ \operatorname{arctan}{2} ~ \operatorname{arctg} 2
factorials          ~ 10! ~ 3628800 ~ 10\cdot 9! ~ 3,628,800
binomials           ~ \binom{10}{3} ~ 120 ~ {10 \choose 3} ~ \dbinom{10}{3} ~ \frac{10!}{3!7!}
complex             ~ 6 - 5i ~ 6-5i ~ -5i+6 ~ 6 + (-5)i ~ i(-5-6i) ~ 6-5\mathrm{i}
complex             ~ \frac{1+i\sqrt3}{2} ~ \frac12+\frac{\sqrt3}{2}i ~ e^{i\pi/3} ~ \cos\frac{\pi}3+i\sin\frac{\pi}3 ~ 0.5+0.5\sqrt{3}i
polynomials         ~ x^5 - x^4 + x^3 - x^2 + x - 1 ~ (x-1)(x^4+x^2+1) ~ -1+x-x^2+x^3-x^4+x^5 ~ x^{5}-x^{4}+x^{3}-x^{2}+x-1
polynomials         ~ (a+5)(b+2) ~ ab+2a+5b+10 ~ (b+2)(a+5) ~ (a + 5) \cdot (b + 2) ~ a(b+2)+5(b+2)
polynomials         ~ 6r^2-4r-24 ~ 2(3r^2-2r-12) ~ 6r²-4r-24 ~ 6*r**2-4*r-24 ~ -24 - 4r + 6r^{2}
expressions         ~ \frac{11+9a}{20} ~ \frac{9a+11}{20} ~ (11+9a)/20 ~ \frac{11}{20}+\frac{9a}{20} ~ 0.55+0.45a ~ \frac{1}{20}(11+9a)
expressions         ~ \frac{1}{x+1} ~ 1/(x+1) ~ (x+1)^{-1} ~ \frac{x-1}{x^2-1} ~ \dfrac1{x+1}
expressions         ~ x^{2+y} ~ x^2x^y ~ x^{y+2} ~ x^2\cdot x^y
expressions         ~ \sqrt{x^3} ~ x\sqrt{x} ~ x^{3/2} ~ x^{\frac32} ~ x^{1.5}
expressions         ~ \left|x-1\right| ~ |1-x| ~ \lvert x-1\rvert ~ |x-1| ~ \sqrt{(x-1)^2}
expressions         ~ n! ~ n(n-1)! ~ n \cdot (n-1)! ~ n !
expressions         ~ \frac{n(n+1)}{2} ~ \binom{n+1}{2} ~ \frac{n^2+n}{2} ~ n(n+1)/2
expressions         ~ 2k ~ 2 k ~ 2\cdot k ~ k+k ~ 2*k
expressions         ~ x_1+x_2 ~ x_{1} + x_{2} ~ x_2+x_1 ~ x₁+x₂
expressions         ~ 3R^2 ~ 3 R^{2} ~ 3R² ~ 3\cdot R\cdot R
equations           ~ 5x - 7y + 11z + 4 = 0 ~ -5x+7y-11z-4=0 ~ 10x-14y+22z+8=0 ~ 5x+11z+4=7y ~ 0=5x-7y+11z+4 ~ 5x - 7y + 11z = -4
equations           ~ y = 2x + 3 ~ 2x+3 ~ y=3+2x ~ 2x-y+3=0 ~ 2x + 3 = y ~ y-3=2x
equations           ~ x^2+y^2=4 ~ 4 = x^2+y^2 ~ x^2+y^2-4=0 ~ \frac{x^2}{4}+\frac{y^2}{4}=1
labels              ~ x=5 ~ 5 ~ x = 5.0 ~ 5=x ~ x=\frac{10}{2} ~ 2x=10 ~ $x = 5$
labels              ~ 5 ~ x=5 ~ x = 5 ~ f(3) = 5 ~ AB = 5 ~ a+b=5 ~ \text{Area} = 5 ~ \text{the area is } 5 ~ P(X=1)=5 ~ x_{\max}=5 ~ S_5 = 5 ~ |AB|=5
labels              ~ x^2-1 ~ f(x) = x^2-1 ~ y=x^2-1 ~ f(x)=(x-1)(x+1) ~ p(x) = x^2 - 1 ~ f^{-1}(x)=x^2-1
chains              ~ 11 ~ x = 5+5+1 = 11 ~ 5+6=11 ~ x=11 ~ S = 5 + 6 = 11
chains              ~ \pi ~ \pi \approx 3.14 ~ x=\pi\approx3.14159 ~ \pi≈3.1416
chains              ~ \frac{2}{7} ~ \frac27 \approx 0.2857 ~ P = \frac{4}{14} = \frac{2}{7} ~ P(A)=\frac27
implication         ~ 2 ~ x+1=3 \Rightarrow x=2 ~ x+1=3 \implies x=2
inequalities        ~ (2,\infty) ~ x>2 ~ x \in (2,\infty) ~ 2<x ~ (2, +\infty) ~ 2 < x < \infty ~ x \gt 2 ~ (2, infinity) ~ \{x \mid x>2\} ~ (2,∞) ~ 2x>4 ~ -x<-2
inequalities        ~ x \in [-2,7] ~ [-2,7] ~ -2 \le x \le 7 ~ -2\leq x\leq7 ~ 7 \ge x \geq -2 ~ -2 ≤ x ≤ 7 ~ \left[-2,7\right] ~ x\ge-2 \text{ and } x\le7 ~ \{x: -2\le x\le 7\}
inequalities        ~ (-\infty, 0] ~ x \le 0 ~ x\leqslant0 ~ 0\ge x ~ (-\infty,0\rbrack ~ x\in\left(-\infty,0\right] ~ (-oo, 0]
inequalities        ~ x < 2 ~ 2 > x ~ (-\infty,2) ~ 3x<6 ~ x-2<0
inequalities        ~ a+1<x<b ~ x\in(a+1,b) ~ b > x > 1+a
inequalities        ~ x+y \le 3 ~ 3 \ge x+y ~ 2x+2y\le6 ~ -x-y\ge-3
unions              ~ (0,9) \cup (9,36) ~ (9,36)\cup(0,9) ~ x\in(0,9)\cup(9,36) ~ (0,9)∪(9,36) ~ (0,9) U (9,36) ~ 0<x<9 \text{ or } 9<x<36
unions              ~ (-\infty, 2) \cup (3, \infty) ~ x<2 \text{ or } x>3 ~ x > 3 or x < 2 ~ x<2, x>3 ~ \mathbb{R}\setminus[2,3] ~ \{x | x<2\}\cup\{x | x>3\}
unions              ~ (-\infty,3)\cup(3,\infty) ~ x \neq 3 ~ x\ne3 ~ \mathbb{R}\setminus\{3\} ~ (-\infty,\infty)\setminus\{3\} ~ x∈ℝ∖{3}
unions              ~ [1,3] ~ [1,2]\cup[2,3] ~ [1,2) \cup [2,3]
unions              ~ \mathbb{R} ~ (-\infty,\infty) ~ (-\infty,+\infty) ~ \text{all real numbers} ~ x\in\mathbb{R}
unions              ~ \emptyset ~ \varnothing ~ \{\} ~ \text{no solution} ~ ∅
tuples              ~ \left( 3, \frac{\pi}{2} \right) ~ (3,\pi/2) ~ (3, \frac{1}{2}\pi) ~ \langle 3,\pi/2\rangle ~ ( 3 , 0.5\pi ) ~ \left(3;\frac\pi2\right)
tuples              ~ (6,31,-1) ~ (6, 31, -1) ~ (6,~31,~-1) ~ \left(6,31,-1\right) ~ (x,y,z)=(6,31,-1) ~ x=6,y=31,z=-1 ~ 6,31,-1
tuples              ~ (3,2) ~ (p,q)=(3,2) ~ (\frac{6}{2},2) ~ p=3, q=2 ~ q=2 \text{ and } p=3 ~ (3.0,2)
tuples              ~ (1,2),(3,4) ~ (3,4),(1,2) ~ (1,2) \text{ and } (3,4) ~ \{(1,2),(3,4)\} ~ (x,y)=(1,2),(3,4)
labelled            ~ AB=4, CD=5 ~ CD = 5, AB = 4 ~ 4, 5 ~ AB=4;CD=5
labelled            ~ y_{1}=-2x^{2}+4x+3, y_{2}=3x^{2} ~ y_1=-2(x-1)^2+5, y_2=3x^2 ~ -2x^2+4x+3, 3x^2
sets                ~ \{1,2,3\} ~ \{3,2,1\} ~ 1,2,3 ~ 3, 1, 2 ~ {1,2,3} ~ \{1;2;3\} ~ \left\{1,2,3\right\} ~ x\in\{1,2,3\} ~ \lbrace 1,2,3\rbrace ~ \{1,1,2,3\}
sets                ~ 3, 5, 7 ~ 7,5,3 ~ 3,5,\text{ and }7 ~ 3, 5 and 7 ~ \{3,5,7\} ~ x=3,5,7 ~ x=3 or x=5 or x=7 ~ 3;5;7 ~ 3\text{ or }5\text{ or }7
sets                ~ -2,1 ~ 1,-2 ~ x=1, x=-2 ~ x_1=-2, x_2=1 ~ x=-2 \text{ or } x=1 ~ x = -2, 1 ~ x=1 or -2 ~ (-2,1)
sets                ~ \{5\} ~ 5 ~ x=5 ~ \{ 5.0 \}
plus-minus          ~ 1 \pm \sqrt{19} ~ 1+\sqrt{19}, 1-\sqrt{19} ~ 1-\sqrt{19},1+\sqrt{19} ~ x=1\pm\sqrt{19} ~ 1±√19 ~ \{1-\sqrt{19},1+\sqrt{19}\} ~ \frac{2\pm\sqrt{76}}{2} ~ 1 +/- sqrt(19)
plus-minus          ~ \{1\pm\sqrt{5},-2\} ~ -2,1+\sqrt5,1-\sqrt5 ~ -2, 1 \pm \sqrt{5} ~ \{-2,1-\sqrt5,1+\sqrt5\}
plus-minus          ~ \pm 2 ~ 2,-2 ~ -2, 2 ~ x=\pm2 ~ ±2 ~ \{-2,2\} ~ \mp2
matrices            ~ \begin{pmatrix} -1/3 \\ 2/3 \\ 5/3 \end{pmatrix} ~ \begin{bmatrix}-\frac13\\\frac23\\\frac53\end{bmatrix} ~ \frac13\begin{pmatrix}-1\\2\\5\end{pmatrix} ~ \left(\begin{array}{c}-1/3\\2/3\\5/3\end{array}\right) ~ (-1/3,2/3,5/3) ~ \begin{pmatrix}-1/3\\[4pt]2/3\\[4pt]5/3\end{pmatrix}
matrices            ~ \begin{pmatrix} -1 & 0 \\ 0 & -1 \end{pmatrix} ~ -\begin{pmatrix}1&0\\0&1\end{pmatrix} ~ \begin{bmatrix}-1&0\\0&-1\end{bmatrix} ~ \begin{pmatrix}-1&0\\0&-1\\\end{pmatrix} ~ A=\begin{pmatrix}-1&0\\0&-1\end{pmatrix}
matrices            ~ \begin{pmatrix} 1 \\ 2 \end{pmatrix} ~ \begin{pmatrix}1&2\end{pmatrix}^T ~ \begin{smallmatrix}1\\2\end{smallmatrix} ~ (1,2)
systems             ~ x=1,y=2 ~ \begin{cases}x=1\\y=2\end{cases} ~ \left\{\begin{array}{l}x=1\\y=2\end{array}\right. ~ (1,2) ~ (x,y)=(1,2) ~ \begin{aligned}x&=1\\y&=2\end{aligned}
bases               ~ 52_8 ~ 52_{8} ~ (52)_8 ~ 52_{\text{eight}} ~ 52 \text{ (base 8)} ~ 52 ~ 52_{\text{base }8} ~ 52 base 8
bases               ~ 4210_{5} ~ 4210_5 ~ 4210_{five} ~ 4210_{(5)} ~ {4210}_5
choices             ~ \text{(C)} ~ C ~ (C) ~ \text{C} ~ \textbf{(C)} ~ C. ~ (C) 12 ~ C) 12 ~ \mathrm{(C)} ~ \textbf{(C)}\ 12 ~ **C** ~ Option C
choices             ~ 12 ~ (C) 12 ~ \textbf{(C) }12 ~ \textbf{(C)}\ 12 ~ C. 12
text                ~ \text{Evelyn} ~ Evelyn ~ \textbf{Evelyn} ~ evelyn ~ \mathrm{Evelyn} ~ \text{ Evelyn } ~ Evelyn. ~ "Evelyn"
text                ~ \text{even} ~ even ~ Even ~ \mbox{even} ~ \textit{even} ~ **even** ~ `even`
text                ~ \text{east} ~ east ~ East. ~ \text{East}
text                ~ \text{the parabola} ~ parabola ~ a parabola ~ \text{Parabola}
text                ~ 11:30\text{ a.m.} ~ 11:30 a.m. ~ 11{:}30\text{ a.m.} ~ 11:30\,\text{a.m.}
ratios              ~ 1:2 ~ \frac12 ~ 1 : 2 ~ 2:4 ~ 1\colon2 ~ 1/2
ratios              ~ 3:4:5 ~ 6:8:10 ~ 3 : 4 : 5
intervals           ~ \left(\frac{3}{5},\frac{8}{3}\right] ~ (0.6,\frac83] ~ (3/5, 8/3] ~ \frac35<x\le\frac83
intervals           ~ \left[ \frac{\pi^2}{8}, \frac{5 \pi^2}{4} \right] ~ [\pi^2/8,5\pi^2/4] ~ [\frac{1}{8}\pi^2, 1.25\pi^2]
spacing             ~ 18+2\pi ~ \left(18+2\pi\right) ~ 18\,+\,2\,\pi ~ 18 + \displaystyle 2\pi ~ \big(18+2\pi\big) ~ 18+2\pi. ~ \{18+2\pi\}
infinity            ~ \infty ~ +\infty ~ infinity ~ ∞
domains             ~ \frac{\pi}{4}+k\pi, k\in\mathbb{Z} ~ \frac{\pi}{4}+k\pi ~ x=\frac{\pi}{4}+k\pi, k \in \mathbb{Z} ~ k\pi + \pi/4 (k \in \mathbb{Z})
rounded             ~ 0.33 ~ 1/3 ~ \frac13
rounded             ~ 33.3 ~ \frac{100}{3} ~ 33\frac13
rounded             ~ 3.14 ~ \pi ~ \frac{22}{7}
rounded             ~ \frac13 ~ 0.33333333 ~ 0.333333
rounded             ~ (0.6,2.6667] ~ (\frac{3}{5},\frac{8}{3}]
"""

# A line: the form, the reference, then answers that are not equal to it.
DIFFERENT = r"""
integers            ~ 10080 ~ 1008 ~ 10,80 ~ 10080.5 ~ 10081 ~ -10080 ~ 100800 ~ 10, 080, 1
integers            ~ 12 ~ 12.0000001 ~ 1,2 ~ 1 2 ~ (1,2) ~ 12! ~ 12i ~ 12x ~ 21
zero                ~ 0 ~ 10^{-8} ~ 0.0000001 ~ e^{-200} ~ 10^{-1000} ~ 5x-7y+4=0 ~ \emptyset ~ O ~ \{\}
large               ~ 10^{50} ~ 10^{50}+1 ~ 10^{51}
large               ~ 262537412640768744 ~ e^{\pi\sqrt{163}} ~ 262537412640768743
decimals            ~ 0.5 ~ 0.49999 ~ 0.05 ~ 5 ~ \frac{499}{1000} ~ 0.51 ~ 6/13
decimals            ~ 3.21 ~ 3.212 ~ 3.2 ~ 32.1
scientific          ~ 6.72\times10^{-5} ~ 6.72\times10^{5} ~ 6.72\times10^{-4} ~ 6.72 ~ 6.73e-5
repeating           ~ 0.\overline{3} ~ 0.3 ~ 0.\overline{34} ~ 3
repeating           ~ 0.1\overline{6} ~ 0.\overline{16} ~ 0.16
fractions           ~ \frac{1}{3} ~ 0.33 ~ 0.333 ~ 0.34 ~ 3 ~ 1/30 ~ \frac13\% ~ \frac{1}{3.1}
fractions           ~ \frac{a+b}{c} ~ a+b/c ~ a+\frac{b}{c} ~ \frac{a}{b+c} ~ \frac{a-b}{c}
fractions           ~ \frac{1}{x+1} ~ 1/x+1 ~ \frac1x+1 ~ x+1 ~ -\frac{1}{x+1}
fractions           ~ \frac{11+9a}{20} ~ 11+9a/20 ~ 11+\frac{9a}{20} ~ \frac{11+9b}{20} ~ \frac{20}{11+9a} ~ \frac{11+9A}{20}
fractions           ~ \frac{2}{3} ~ 0.67 ~ 0.6666 ~ \frac{3}{2} ~ 2,3 ~ (2,3) ~ 23 ~ 2:4
mixed               ~ 3\frac12 ~ \frac32 ~ 3 ~ \frac{3}{2} ~ 3, \frac12 ~ 1.5
percent             ~ 0.2 ~ 20 ~ 0.2\% ~ 2\%
percent             ~ 20 ~ 0.2 ~ 200\% ~ 2\% ~ 0.2\%
money               ~ \$18.90 ~ \$18.09 ~ 1890 ~ \$19
degrees             ~ 90^\circ ~ \frac{\pi}{2} ~ 9^\circ ~ 900 ~ 90^2
units               ~ 5\text{ cm} ~ 5\text{ m} ~ 50\text{ cm} ~ 5 inches ~ 6 cm
units               ~ 6:30\text{ p.m.} ~ 6:30\text{ a.m.} ~ 6:31\text{ p.m.}
units               ~ 2 ~ 2abcd ~ 2ab ~ 2x ~ 2 + x cm
roots               ~ 3\sqrt{13} ~ \sqrt{39} ~ \sqrt[3]{13} ~ 13\sqrt3 ~ -3\sqrt{13} ~ 10.8167 ~ 3+\sqrt{13} ~ \sqrt{3 \cdot 13}
roots               ~ \sqrt{2}+\sqrt{3} ~ \sqrt{5} ~ 3.146 ~ \sqrt{2}-\sqrt3 ~ \sqrt{2+3}
roots               ~ \sqrt[3]{2} ~ 3\sqrt2 ~ \sqrt{2} ~ 2^3 ~ \sqrt[2]{3}
pi                  ~ \pi ~ 3.14 ~ 3.14159 ~ \frac{22}{7} ~ 180 ~ p ~ \Pi ~ 2\pi
pi                  ~ 288\pi ~ 288 ~ 904.78 ~ 288\pi^2 ~ \frac{288}{\pi}
logs                ~ \log_2 3 ~ \log_3 2 ~ \log 2^3 ~ \ln 3 ~ 2^3
logs                ~ \log(ab) ~ \log a\log b ~ \log(a+b) ~ \log a - \log b
exponentials        ~ 1-\frac1e ~ 1+\frac1e ~ \frac1e-1 ~ 1-e
powers              ~ 2^{x+1} ~ 2^x+1 ~ 2x+1 ~ 2^{x-1} ~ 2^{x}
powers              ~ x^{2+y} ~ x^2+y ~ x^{2y} ~ (2+y)^x
powers              ~ 2^{10} ~ 2^1 0 ~ 210 ~ 20 ~ 10^2 ~ 2^{11}
powers              ~ (2^3)^2 ~ 2^{3^2} ~ 2^5
trigonometry        ~ \cot x ~ \csc x ~ \tan x ~ \sec x ~ \cot y ~ \cot 2x
trigonometry        ~ \sin 30^\circ ~ \sin 30 ~ \cos 30^\circ ~ -\frac12
trigonometry        ~ \tan 90^\circ ~ 0 ~ 1 ~ \infty ~ \cot 0
trigonometry        ~ \sin x ~ \cos x ~ \sin y ~ x ~ \sin 2x ~ \sin^2 x ~ \sin
absolute            ~ |x| ~ x ~ -x ~ x^2
absolute            ~ x ~ \sqrt{x^2} ~ |x| ~ X ~ x' ~ x_1
factorials          ~ n! ~ n ~ (n+1)! ~ n^n ~ 2n!
binomials           ~ \binom{10}{3} ~ \frac{10}{3} ~ 720 ~ \binom{3}{10}
complex             ~ 6-5i ~ 6+5i ~ -6+5i ~ 6-5 ~ 5-6i ~ 1 ~ (6,-5)
complex             ~ 1+i ~ 1-i ~ 2 ~ \sqrt2 ~ 1,i
polynomials         ~ x^2-1 ~ x^2+1 ~ (x-1)^2 ~ x^2 ~ y^2-1 ~ 1-x^2 ~ x^2=1 ~ (x-1)(x+2)
polynomials         ~ (a+5)(b+2) ~ (+5)(b+2) ~ (a+2)(b+5) ~ a+5b+2 ~ ab+10
segments            ~ \overline{AB} ~ AB ~ \angle AB
letters             ~ xy ~ x+y ~ x ~ y ~ x,y ~ xyz
equations           ~ y=2x+3 ~ y=2x-3 ~ y=3x+2 ~ x=2y+3 ~ 3 ~ y=2x ~ 2x-3
equations           ~ 5x-7y+11z+4=0 ~ 0 ~ 5x-7y+11z-4=0 ~ 5x-7y+11z+4 ~ 5x+7y+11z+4=0 ~ 4
equations           ~ x^2+y^2=4 ~ 4 ~ x^2+y^2=2 ~ x^2-y^2=4 ~ x^2+y^2<4
labels              ~ x=5 ~ y=5 ~ x=-5 ~ x>5 ~ x \ne 5 ~ x=5,y=5 ~ x=50
labels              ~ 10 ~ 2x=10 ~ x^2=10 ~ x=10,y=1 ~ x>10 ~ x \approx 10.1
chains              ~ 11 ~ x=5+6=12 ~ 11=x+1 ~ 11 \ne x
inequalities        ~ (2,\infty) ~ x\ge2 ~ x<2 ~ [2,\infty) ~ (2,3) ~ 2 ~ x=2 ~ (-\infty,2) ~ \infty
inequalities        ~ x>2 ~ y>2 ~ x<2 ~ x \ge 2 ~ x>-2 ~ 2>x ~ x=2 ~ -x>2
inequalities        ~ -2\le x\le7 ~ (-2,7) ~ -2<x<7 ~ [-2,7) ~ -2,7 ~ [-2,8] ~ [-7,2]
unions              ~ (0,9)\cup(9,36) ~ (0,36) ~ (0,9) ~ (0,9]\cup(9,36) ~ (0,9),(9,36) ~ (0,9)\cap(9,36)
unions              ~ x\neq3 ~ x=3 ~ 3 ~ \mathbb{R} ~ x \ne -3
unions              ~ \mathbb{R} ~ R ~ (0,\infty) ~ \emptyset ~ \mathbb{Z}
tuples              ~ (1,2) ~ (2,1) ~ [1,2] ~ (1,2] ~ \{1,2\} ~ 2,1 ~ (1,2,3) ~ 1.2 ~ (-1,2) ~ 12
tuples              ~ (6,31,-1) ~ (6,-1,31) ~ (6,31) ~ 6 ~ (6,31,1)
tuples              ~ (1,2),(3,4) ~ (1,3),(2,4) ~ (2,1),(4,3) ~ (1,2) ~ 1,2,3,4
labelled            ~ x=1,y=2 ~ x=2,y=1 ~ x=1 ~ (2,1) ~ x=1,z=2
sets                ~ \{1,2,3\} ~ \{1,2\} ~ \{1,2,3,4\} ~ (1,2,3) ~ [1,3] ~ 6 ~ 123 ~ 1,2,4
sets                ~ 1,-2 ~ -1,2 ~ 1 ~ 1-2 ~ -1 ~ 1,2 ~ (-2,1)
sets                ~ \{1,3\} ~ (1,3) ~ [1,3] ~ 1.3
plus-minus          ~ \pm2 ~ 2 ~ -2 ~ 0 ~ 2,2 ~ \pm3
plus-minus          ~ 1\pm\sqrt{19} ~ 1+\sqrt{19} ~ 1-\sqrt{19} ~ -1\pm\sqrt{19} ~ \pm\sqrt{19} ~ 1
matrices            ~ \begin{pmatrix}1\\2\end{pmatrix} ~ \begin{pmatrix}2\\1\end{pmatrix} ~ \begin{pmatrix}1&2\end{pmatrix} ~ \begin{pmatrix}1\\2\\0\end{pmatrix} ~ \{1,2\} ~ \begin{pmatrix}1\\-2\end{pmatrix}
matrices            ~ \begin{pmatrix}1&2\\3&4\end{pmatrix} ~ \begin{pmatrix}1&3\\2&4\end{pmatrix} ~ (1,2,3,4) ~ -2 ~ \begin{vmatrix}1&2\\3&4\end{vmatrix} ~ \begin{pmatrix}1&2&3&4\end{pmatrix}
bases               ~ 52_8 ~ 52_9 ~ 42 ~ 25_8 ~ 52_{10} ~ 528
choices             ~ \text{(C)} ~ B ~ (D) ~ \text{(B)} ~ 3 ~ \text{A, C} ~ (B) 12 ~ C, D
text                ~ \text{Evelyn} ~ Evelin ~ Angela ~ Evelyn and Angela ~ not Evelyn ~ 5
text                ~ \text{even} ~ odd ~ neither ~ not even ~ seven ~ neve
text                ~ \text{east} ~ seat ~ eats ~ west ~ south east
text                ~ \text{yes} ~ no ~ y ~ \text{not yes}
text                ~ \text{Player 1} ~ Player 2 ~ \text{Play 1}
ratios              ~ 1:2 ~ 2:1 ~ 1:3 ~ 1,2 ~ 12
functions           ~ f(x)+f(y) ~ f(x+y) ~ f(x) ~ f(y)f(x)
infinity            ~ \infty ~ -\infty ~ 0 ~ 10^{100} ~ 8
intervals           ~ (0.6,2.6667] ~ (0.6,2.6667) ~ (0.6,2.5] ~ (0.5,\frac83]
"""


def table(text):
    for line in text.strip().splitlines():
        form, reference, *answers = (part.strip() for part in line.split(" ~ "))
        yield from ((form, reference, answer) for answer in answers)


def test_equal():
    wrong = [case for case in table(EQUAL) if not judge.equal(case[1], case[2])[0]]
    assert not wrong


def test_different():
    wrong = [case for case in table(DIFFERENT) if judge.equal(case[1], case[2])[0]]
    assert not wrong


# reference @ a response that gives it (\n is a new line)
GIVES = r"""
5 @ The answer is 5.
\frac12 @ So the final answer is $\frac{1}{2}$. I hope it is correct.
2x + 4y + z - 19 = 0 @ Final Answer: The final answer is $2x + 4y + z - 19 = 0$. I hope it is correct.
12 @ **Answer: 12**
12 @ **Final Answer**\n\n$12$
12 @ ### Final Answer\n12
72 @ Natalia sold 48/2 = 24 clips in May.\nAltogether 48+24 = 72 clips.\n#### 72
12 @ A: 12
204 @ Thus, $m+n = 204$.
204 @ With the 24 minutes the walk takes **204** minutes.
33 @ So the answer is \boxed{033}.
5 @ \boxed{3} is wrong, so \boxed{5}
5 @ \boxed{5} \boxed{} \boxed{ }
5 @ \boxed 5
5 @ \fbox{5}
5 @ $\boxed{\boxed{5}}$ and 7 more
\frac{\sqrt{3}}{2} @ We get $\boxed{\frac{\sqrt{3}}{2}}$.
\{1,2\} @ \boxed{\{1,2\}}
2,3 @ So $x = \boxed{2}$ and $x = \boxed{3}$.
2,3 @ First \boxed{7} is a mistake; the roots are \boxed{2} and \boxed{3}.
3 @ So $x = \boxed{2}$ at first, but then $x = \boxed{3}$.
2,3 @ The solutions are $x=2$ or $x=3$.
2,3 @ Thus the answers are 2 and 3.
7 @ <think>maybe \boxed{3}</think>It is \boxed{7}.
7 @ <think>hmm so \boxed{7}</think>
7 @ <think>first \boxed{3}, hmm, so \boxed{7} and then it was cut off
7 @ <think>It is \boxed{3}</think>The answer is 7.
7 @ <|channel|>analysis<|message|>maybe \boxed{3}<|end|><|start|>assistant<|channel|>final<|message|>It is \boxed{7}.<|return|>
C @ The correct option is (C).
C @ The answer is (C) 12.
C @ So the correct choice is **C**.
1/2 @ The probability is 1/2.
-3 @ Therefore, the value is -3.
1234 @ The total is 1,234.
5 @ The answer is $5.00.
18 @ She makes $7 and $11 every day. The answer is $18.
73 @ **73**
\sqrt{2} @ The answer is sqrt(2).
x=2 @ Hence x = 2.
6 - 5i @ Therefore we have z = 6 - 5i.
(1,2) @ The answer is (1, 2).
(-\infty,3) @ The solution is $x<3$.
\text{Evelyn} @ The answer is Evelyn.
10 @ The answer is 10 because 5 + 5 = 10 and 2 * 5 = 10.
10 @ The answer is $10$ when $x = 2$.
10 @ Let me compute: 3 + 7 = 10
10 @ Answer:\n\n$$\n10\n$$
10 @ The answer is therefore 10 cm.
10 @ The answer is 10.\n\nLet me know if you need 3 more examples!
3.14 @ The value is approximately 3.14.
1\frac12 @ The answer is 1 1/2.
\begin{pmatrix}1\\2\end{pmatrix} @ The answer is $$\begin{pmatrix} 1 \\ 2 \end{pmatrix}$$
\begin{pmatrix}1\\2\end{pmatrix} @ \begin{pmatrix} 1 \\ 2 \end{pmatrix}
11:30 @ They meet at \boxed{11:30}.
x^2+1 @ Thus $f(x) = x^2+1$.
8 @ 8
8 @ 8 apples
8 @ So, the number of apples is 8.
8 @ Hence $a+b+c = 1+2+5 = 8$. $\blacksquare$
\frac{2}{3} @ Probability: $P = \frac{4}{6} = \frac{2}{3}$
\$5 @ \boxed{\$5}
5 @ <answer>5</answer>
4 @ The answer is $4$, not $5$.
204 @ The answer is $m+n$, where $\frac{m}{n}=\frac{101}{103}$, so $m+n=204$.
480 @ \boxed{\begin{array}{c}480\end{array}}
\{1,2\} @ The answer is $\{1,2\}$.
(1,2) @ (1,2)
x^2-1 @ (x-1)(x+1)
"""


def test_the_answer_is_found_in_prose():
    cases = [line.split(" @ ", 1) for line in GIVES.strip().splitlines()]
    found = [(reference, judge.extract_answer(response.replace("\\n", "\n"), reference)) for reference, response in cases]
    assert not [case for case in found if case[1] is None or not judge.equal(*case)[0]]


@pytest.mark.parametrize("prose", [
    "So $\\boxed{%s}$ is it, for 3 reasons.", "Final Answer: The final answer is $%s$. I hope it is correct.", "We get\n$$%s$$", "%s",
    "The answer is %s", "2+2=4\n#### %s", "<think>3</think>\n**Answer:** $%s$", "Therefore, the answer is \\(%s\\)"])  # fmt: skip
def test_prose_changes_no_verdict(prose):
    """Every pair of both tables once more, within a response."""
    judged = []
    for pairs, right in ((EQUAL, True), (DIFFERENT, False)):
        for _, reference, answer in table(pairs):
            if not ("oxed" in answer or "**" in answer or "$" in answer and "$" in prose):
                found = judge.extract_answer(prose % answer, reference)
                judged.append((reference, answer, found, (found is not None and judge.equal(reference, found)[0]) is right))
    assert len(judged) > 900 and not [case for case in judged if not case[3]]


@pytest.mark.parametrize("response", ["", "  \n", "<think>", "<think>it is 5", "I do not know what to say about this", "<|im_end|>"])
def test_no_answer_is_none(response):
    answer = judge.extract_answer(response)
    assert answer is None or not any(letter.isdigit() for letter in answer)
    assert response.startswith("I do") or answer is None


def test_a_repeated_question_is_no_answer():
    assert judge.equal("4", "2+2", "What is $2 + 2$?") == (False, "different")
    assert judge.equal("\\frac34", "\\frac{6}{8}", "Simplify $\\dfrac{6}{8}$.") == (False, "different")
    assert judge.equal("x=2", "2x+1=5", "Solve $2x + 1 = 5$ for $x$.") == (False, "different")
    assert judge.equal("4", "2+2", "What is $1+2+2-1$?")[0]
    assert judge.equal("4", "4", "What is the square of 2, which is 4?")[0]
    assert judge.equal("\\frac{6}{8}", "6/8", "Why is $\\frac{6}{8}$ the answer?")[0]


def test_reasons():
    assert judge.equal("10,080", "10080")[1] == "equal: exact"
    assert judge.equal("\\frac12", "0.5")[1] == "equal: exact"
    assert judge.equal("2\\sqrt3", "\\sqrt{12}")[1] == "equal: numeric"
    assert judge.equal("x^2-1", "(x-1)(x+1)")[1] == "equal: symbolic"
    assert judge.equal("5", "9^{9^9}") == (False, "too complex")


@pytest.mark.parametrize("reference", [None, "1", "0.33", "x=5"])
def test_groups_are_the_same_in_any_order(reference):
    answers = ["1", "1.0", "\\frac{2}{2}", "x=1", "2", "\\sqrt4", "1/3", "0.33", "0.333333", "1,2", "\\{2,1\\}", "(1,2)", "(2,1)",
               "x>2", "(2,\\infty)", "two", "20\\%", "20", "0.2", "5", "x=5", "x = 5.0", "y=5", "9^{9^9}", "who knows", "Who knows."]  # fmt: skip
    seen = set()
    for seed in range(20):
        shuffled = random.Random(seed).sample(answers, len(answers))
        verdicts, numbers = judge.group([*shuffled, None], reference)
        assert numbers[-1] is None and sorted(set(numbers[:-1])) == list(range(max(numbers[:-1]) + 1))
        classes = {}
        for answer, number in zip(shuffled, numbers):
            classes.setdefault(number, set()).add(answer)
        seen.add(frozenset(frozenset(members) for members in classes.values()))
        right = {answer for answer in answers if reference and judge.equal(reference, answer)[0]}
        assert all(verdicts[answer][0] is (None if reference is None else answer in right) for answer in answers)
        assert not right or right in classes.values()
    assert len(seen) == 1


def test_groups_hold_what_is_equal_alone():
    _, numbers = judge.group(["1/2", "0.5", "\\frac24", "x=2", "2", "1", "(1,2)", "(2,1)", "2,1", "1,2"])
    assert numbers[0] == numbers[1] == numbers[2] and numbers[3] == numbers[4] != numbers[5] and numbers[6] != numbers[7]
    assert numbers[8] == numbers[9] and len(set(numbers)) >= 5


HOPELESS = {
    "tower": "9^{9^{9}}", "tower of pi": r"\pi^{\pi^{\pi^{\pi^{\pi^\pi}}}}", "small tower": "2^{-9^{9^9}}", "exponentials": "e^{e^{e^{e^e}}}",
    "brackets": "(" * 10_000 + "1" + ")" * 10_000, "braces": "{" * 10_000 + "1" + "}" * 10_000, "fractions": r"\frac{1}{" * 500 + "2" + "}" * 500,
    "digits": "9" * 1_000_000, "decimals": "0." + "3" * 1_000_000, "exponent": "1e999999999", "factorials": "1000!!!!", "factorial": "(10^6)!",
    "binomial": r"\binom{10^9}{5\cdot10^8}", "roots": r"\sqrt{" * 45 + "2" + "}" * 45, "sum": "+".join(rf"\sqrt{{{n}}}" for n in range(2, 150)),
    "product": "".join(f"(x+{n})" for n in range(2, 300)), "powers": "+".join(f"x^{{{n}}}" for n in range(9000, 9200)), "signs": r"\pm 1" * 100,
    "sines": r"\sin(" * 45 + "1" + ")" * 45, "huge sine": r"\sin(10^{10000})", "list": ",".join(map(str, range(500))), "carets": "x" + "^x" * 900,
    "minuses": "-" * 1999 + "1", "repeating": "0." + "1" * 1900 + "2...", "spaces": " " * 1_000_000 + "5", "equations": "1" + "=1" * 900,
    "formulas": "$1$, " * 50_000, "answers": "the answer is " * 50_000, "boxes": "\\boxed{" * 10_000 + "5" + "}" * 10_000,
    "open boxes": "\\boxed{ " * 20_000, "dollars": "$" * 100_000, "backslashes": "\\" * 100_000, "surrogate": "\ud800", "null": "\0" * 1000,
    "determinant": r"\begin{vmatrix}" + r"\\".join("&".join("123456789") for _ in range(9)) + r"\end{vmatrix}",
}  # fmt: skip


@pytest.mark.parametrize("name", HOPELESS)
def test_never_hangs(name):
    for reference, response in itertools.product(("5", "x^2+1", "0.33"), (HOPELESS[name], "$\\boxed{" + HOPELESS[name] + "}$")):
        start = time.process_time()
        answer = judge.extract_answer(response, reference)
        verdicts, _ = judge.group([answer, "5", "6"], reference, "Compute " + response[:10_000])
        assert time.process_time() - start < 2
        assert answer is None or name in ("spaces", "boxes") or not verdicts[answer][0] or judge.clean(answer) in ("1", "5")


def test_no_text_is_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for text in ("__import__('os').mkdir('x')", "open('x','w')", "().__class__", "lambda: 0", "\\text{__import__('os').mkdir('x')}"):
        judge.equal("1", text)
        judge.equal(text, "1")
    assert not list(tmp_path.iterdir())


def test_common_answers_need_no_big_package():
    program = "import sys, importlib; j = importlib.import_module('02_label'); j.group(['1/2','0.5','x=5','(1,2)','x^2-1','10,080'], '1/2');"
    program += "assert not {'sympy', 'mpmath', 'torch'} & set(sys.modules), 'imported'"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
