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
rounded             ~ (0.6,2.6667] ~ (\frac{3}{5},\frac{8}{3}]
repeating           ~ 0.\overline{3} ~ 1/3 ~ 0.(3) ~ 0.3\overline{3}
choices             ~ \text{(B)} ~ B) ~ \boxed{B} ~ \mathbf{(B)} ~ (B) ~ B: ~ \text{B)} ~ option (B) ~ \textbf{(B) }
choices             ~ C ~ \text{(C) } 12 ~ \mathrm{C} ~ \boxed{\textbf{(C)}} ~ (\text{C}) ~ (C).
choices             ~ A,C ~ C, A ~ A and C ~ \text{A and C} ~ \{A,C\}
times               ~ 6:00\text{ PM} ~ 6:00 p.m. ~ 6 PM ~ 6:00 PM ~ 6\text{ p.m.} ~ 6:00 \text{ pm} ~ 06:00 PM ~ 6:00\,\mathrm{PM}
times               ~ 10:25\text{ a.m.} ~ 10:25 AM ~ 10:25\mathrm{~a.m.} ~ 10:25 a.m ~ 10:25AM
times               ~ 12:30 ~ 12:30 ~ \text{12:30} ~ 12{:}30
ratios              ~ 11:21 ~ \frac{11}{21} ~ 11/21 ~ 22:42 ~ V_1:V_2=11:21 ~ 11 : 21 ~ 11 \text{ to } 21 ~ 11 to 21
ratios              ~ V_{1}: V_{2}=11: 21 ~ 11:21
congruences         ~ n\equiv 3\pmod 7 ~ n\equiv 3\pmod{7} ~ 3 \pmod 7 ~ n \equiv 3 \ (\text{mod } 7) ~ n \equiv 3 (mod 7) ~ n \equiv 10 \pmod{7} ~ 3 \mod 7 ~ n \equiv -4 \pmod 7
congruences         ~ 3 ~ 3 \pmod{7} ~ x \equiv 3 \pmod 7
labels              ~ p=\frac14 ~ 25\% ~ 1/4 ~ 0.25
labels              ~ f(x)=2x+1 ~ y=2x+1 ~ 2x+1 ~ f(x) = 1+2x ~ f(t)=2t+1
labels              ~ y=2x+1 ~ f(x)=2x+1 ~ y(x)=2x+1
labels              ~ k=5 ~ 5 ~ k = 5 ~ \boxed{k=5} ~ \text{k = 5}
labels              ~ x=\frac{1}{2} ~ 0.5 ~ \frac12 ~ x=.5 ~ 50\%
labels              ~ 16 ~ S_{\triangle ABC}=16 ~ |S|=16 ~ \text{the sum } = 16 ~ n(A)=16 ~ \angle A=16^\circ ~ N = 16 ~ \lvert A \rvert = 16 ~ m\angle A = 16^\circ ~ [ABC]=16
labels              ~ \frac{\pi}{3} ~ \theta=\frac{\pi}{3} ~ \angle C = \frac{\pi}{3} ~ \arg z=\pi/3
absolute            ~ |x|<3 ~ -3<x<3 ~ (-3,3) ~ x\in(-3,3) ~ x > -3 \text{ and } x<3 ~ \{x: |x|<3\}
absolute            ~ (-\infty,-1]\cup[5,\infty) ~ |x-2|\ge3 ~ |2x-4|\geq 6 ~ x\le-1 \text{ or } x\ge5
ordinals            ~ 7\text{th} ~ 7^{\text{th}} ~ 7th ~ 7^{th} ~ 7 ~ 7^\text{th} ~ 7\mathrm{th}
binomials           ~ \frac{n(n-1)(n-2)}{6} ~ C(n,3) ~ {}_nC_3 ~ \binom n3 ~ \binom{n}{3} ~ C_n^3 ~ {n \choose 3} ~ \dbinom n3
binomials           ~ 35 ~ \binom73 ~ C(7,3) ~ C_7^3 ~ {}_7C_3 ~ \dbinom{7}{4}
vectors             ~ \overrightarrow{AB} ~ \vec{AB} ~ \overrightarrow{AB} ~ \vec{\mathrm{AB}}
vectors             ~ 2\vec{a}-\vec{b} ~ 2\mathbf{a}-\mathbf{b} ~ 2 \overrightarrow{a} - \overrightarrow{b} ~ -\vec b+2\vec a
integrals           ~ \frac{x^3}{3}+C ~ \frac{x^3}{3}+c ~ \frac13x^3+C ~ C+\frac{x^3}{3} ~ x^3/3 + C
sums                ~ \sum_{k=1}^{10} k ~ 55 ~ \sum_{k=1}^{10}k ~ \frac{10\cdot11}{2} ~ \sum_{i=1}^{10} i ~ \sum\limits_{k=1}^{10}{k}
sums                ~ 385 ~ \sum_{n=1}^{10} n^2 ~ \sum_{n=1}^{10}n^{2} ~ \sum_{j=0}^{9} (j+1)^2
sums                ~ \prod_{k=1}^5 k ~ 120 ~ 5! ~ \prod_{k=1}^{5}k
sums                ~ \frac{n(n+1)}2 ~ \sum_{k=1}^n k
determinants        ~ -2 ~ \begin{vmatrix}1&2\\3&4\end{vmatrix} ~ \det\begin{pmatrix}1&2\\3&4\end{pmatrix} ~ \left|\begin{array}{cc}1&2\\3&4\end{array}\right|
determinants        ~ ad-bc ~ \begin{vmatrix}a&b\\c&d\end{vmatrix} ~ da-cb
named               ~ 6 ~ \gcd(12,18) ~ \gcd(18, 12) ~ \max(2,6) ~ \min\{6,7\} ~ \operatorname{lcm}(2,3) ~ \max\{1,6\} ~ \lfloor 6.9\rfloor ~ \lceil 5.1 \rceil ~ 3! ~ \text{lcm}(2,3)
named               ~ 3 ~ \log_5 125 ~ \log_{1/2}\frac18 ~ \lfloor \pi \rfloor ~ \ln(e^3) ~ \log_{10}(1000) ~ |{-3}| ~ \sqrt[3]{27} ~ \log 1000
named               ~ \max(a,b) ~ \max\{a,b\} ~ \max(b,a)
named               ~ \frac{\sqrt{6}-\sqrt{2}}{4} ~ \sin 15^\circ ~ \cos 75^\circ ~ \sin\frac{\pi}{12} ~ \frac{\sqrt2(\sqrt3-1)}{4}
equations           ~ xy=1 ~ y=\frac1x ~ y = x^{-1} ~ x=\frac{1}{y} ~ 2xy=2 ~ xy-1=0 ~ 1=xy
equations           ~ \frac{x^2}{4}+\frac{y^2}{9}=1 ~ 9x^2+4y^2=36 ~ \frac{x^2}{2^2}+\frac{y^2}{3^2}=1 ~ y^2/9+x^2/4=1 ~ 9x^2+4y^2-36=0
equations           ~ \frac1x+\frac1y=1 ~ x+y=xy ~ \frac{x+y}{xy}=1 ~ y=\frac{x}{x-1}
equations           ~ y-2=3(x-1) ~ y=3x-1 ~ 3x-y-1=0 ~ y=3x-1 ~ -3x+y=-1
equations           ~ x+2y=6 ~ y=-\frac12x+3 ~ y = 3-\frac{x}{2} ~ 2y=6-x ~ y=\frac{6-x}{2}
systems             ~ x=1,y=2 ~ (1,2) ~ (x,y)=(1,2) ~ x=1 \text{ and } y=2 ~ y=2, x=1 ~ x = 1; y = 2 ~ x=1\\y=2 ~ \left\{\begin{aligned} x&=1\\ y&=2\end{aligned}\right. ~ x=1,\ y=2
systems             ~ a=2, b=-3, c=4 ~ (a,b,c)=(2,-3,4) ~ (2,-3,4) ~ a=2,\quad b=-3,\quad c=4
or                  ~ \{1,-2\} ~ x=1 \text{ or } x=-2 ~ 1 \text{ and } -2 ~ 1, -2 ~ x=1,-2 ~ x_1 = 1, x_2 = -2 ~ x \in \{1,-2\} ~ x = -2\text{ and }x = 1 ~ -2 or 1
or                  ~ 1,2 ~ 1 \text{ and } 2 ~ 2 and 1 ~ 1\text{ or }2 ~ \{1,2\} ~ 1, \text{and } 2
or                  ~ \frac{1}{2};-\frac{1}{3} ~ \frac{1}{2},-\frac{1}{3} ~ -\frac13, \frac12
intervals           ~ [-5,3) ~ -5\le x<3 ~ x\in[-5,3) ~ 3>x\ge-5 ~ -5 \leqslant x < 3 ~ x \geq -5 \text{ and } x<3 ~ \{x\mid -5\le x<3\} ~ \{x \in \mathbb{R} : -5 \le x < 3\}
intervals           ~ (-\infty,\infty) ~ \mathbb{R} ~ \mathbb R ~ \text{all real numbers} ~ x\in\mathbb{R} ~ \Bbb{R} ~ -\infty<x<\infty ~ \text{All real numbers} ~ (-\infty, +\infty)
intervals           ~ [1,4] ~ [1,4]\cap[0,9] ~ [0,4]\cap[1,5] ~ 1 \le y \le 4
intervals           ~ (0,1)\cup(1,\infty) ~ x>0, x\ne1 ~ (0,\infty)\setminus\{1\} ~ 0<x<1 \text{ or } x>1 ~ x>0 \text{ and } x \neq 1
intervals           ~ [2,4)\cup(4,7] ~ (4,7]\cup[2,4) ~ [2,7]\setminus\{4\} ~ [2, 4) \cup (4, 7] ~ x \in [2,4) \cup (4,7]
intervals           ~ m \geq 3 ~ [3,\infty) ~ [3,+\infty) ~ 3\le m ~ m\in[3,+\infty)
intervals           ~ 0 < a \le \frac14 ~ (0,\frac14] ~ a\in(0,0.25] ~ (0, 1/4]
intervals           ~ (-2,0)\cup(0,2) ~ (-2,2)\setminus\{0\} ~ 0<|x|<2 ~ -2<x<2, x\ne 0
empty               ~ \emptyset ~ \varnothing ~ \{\} ~ \{ \} ~ \text{no solution} ~ No solution ~ \text{No real solutions} ~ there are no solutions ~ \{\,\} ~ \text{the empty set}
undefined           ~ \text{undefined} ~ undefined ~ \text{Undefined} ~ does not exist ~ DNE
units               ~ 32\text{ cm}^2 ~ 32 ~ 32\mathrm{~cm}^2 ~ 32 \text{ square centimeters} ~ 32\ \text{cm}^{2} ~ 32 sq cm ~ 32\,cm^2 ~ 32 \text{ sq. cm}
units               ~ 5\mathrm{~m/s} ~ 5 ~ 5\text{ m/s} ~ 5 m/s ~ 5\text{ meters per second} ~ 5 \mathrm{~m} / \mathrm{s} ~ 5\ \frac{\text{m}}{\text{s}} ~ 5\,\text{m}\,\text{s}^{-1}
units               ~ 9.8 ~ 9.8\text{ m/s}^2 ~ 9.8\mathrm{~m} / \mathrm{s}^2 ~ 9.8\ \mathrm{m\cdot s^{-2}}
units               ~ 25 ~ 25\text{ dollars} ~ 25 \text{ minutes} ~ \$25 ~ 25\text{ students} ~ 25 \text{ years old} ~ \text{25 ways} ~ 25\mathrm{ cm} ~ 25~\text{mph} ~ 25 \text{ units}^2 ~ 25\ \text{cubic inches} ~ 25 °C ~ 25^\circ\text{C} ~ 25^\circ C ~ 25 \mathrm{~kJ} / \mathrm{mol}
thousands           ~ 1{,}000 ~ 1000 ~ 1,000 ~ 1 000 ~ 10^{3} ~ 1.0e3 ~ 1\,000 ~ 1e3 ~ 10^3 ~ 1\ 000 ~ 1'000 ~ 1000.00 ~ 1\;000 ~ \text{1,000} ~ one thousand
thousands           ~ 1,000,000 ~ 1000000 ~ 1 million ~ 1\text{ million} ~ 10^6 ~ 1.0\times 10^{6} ~ 1\,000\,000
thousands           ~ 1000000.01 ~ 1,000,000.01 ~ 1{,}000{,}000.01
decimal comma       ~ 0.5 ~ 0{,}5 ~ \frac12 ~ .50
roots               ~ \sqrt[3]{2} ~ 2^{1/3} ~ 2^{\frac{1}{3}} ~ \sqrt[3]2 ~ \sqrt[3]{ 2 }
roots               ~ \frac{\sqrt{3}}{3} ~ 1/\sqrt3 ~ \frac1{\sqrt3} ~ \dfrac{\sqrt3}3 ~ \tan 30^\circ ~ \sqrt{3}/3 ~ {\sqrt{3}}/{3} ~ \sqrt{\dfrac{1}{3}}
fractions           ~ \dfrac12 ~ \frac{1}{2} ~ \frac{1} {2} ~ \tfrac{1}{2} ~ \displaystyle\frac12 ~ \mathbf{\frac{1}{2}} ~ 1\over2 ~ {1\over 2} ~ \frac{2}{4} ~ \left(\frac12\right) ~ \nicefrac{1}{2}
fractions           ~ -\frac{1}{2} ~ \frac{-1}{2} ~ -1/2 ~ -0.5 ~ - \frac12 ~ (-1)/2 ~ \frac{1}{-2} ~ -.5
fractions           ~ \frac{9}{11} ~ \frac{9}{11}. ~ $\frac{9}{11}$ ~ 9/11 ~ \frac {9}{11} ~ 0.\overline{81}
bold                ~ 42 ~ \textbf{42} ~ \mathbf{42} ~ **42** ~ \bf{42} ~ \boldsymbol{42} ~ \displaystyle 42 ~ \ 42 ~ ~42~ ~ \!42 ~ \quad 42 ~ {42} ~ \text{42} ~ \mathrm{42} ~ \underline{42} ~ \large 42
percent             ~ 50\% ~ 0.5 ~ 1/2 ~ \frac12 ~ 50 ~ 50 \% ~ 50\text{%} ~ 50\text{ percent} ~ \frac{1}{2}
percent             ~ 33\frac13\% ~ \frac13 ~ \frac{100}{3}\% ~ 33\tfrac13 \%
ordered             ~ 1,2,3 ~ 1, 2, 3 ~ 1;2;3 ~ (1,2,3) ~ 1,2,\text{ and }3 ~ 3,2,1
nested              ~ ((1,2),(3,4)) ~ ((1, 2), (3, 4)) ~ \left((1,2),(3,4)\right)
nested              ~ \{(1,2),(3,4)\} ~ (1,2),(3,4) ~ \{(3,4),(1,2)\} ~ (3,4) \text{ and } (1,2) ~ (x,y)=(1,2),(3,4) ~ (x,y)\in\{(1,2),(3,4)\} ~ (x, y) = (1,2) \text{ or } (x, y) = (3,4)
matrices            ~ \begin{pmatrix}1&2\\3&4\end{pmatrix} ~ \begin{bmatrix}1&2\\3&4\end{bmatrix} ~ [[1,2],[3,4]] ~ \left(\begin{array}{cc}1&2\\3&4\end{array}\right) ~ \left[\begin{matrix}1&2\\3&4\end{matrix}\right] ~ \begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix} ~ \begin{pmatrix}1.0&2\\\frac62&4\end{pmatrix} ~ \left[\begin{array}{ll}1 & 2 \\ 3 & 4\end{array}\right] ~ M = \begin{bmatrix}1&2\\3&4\end{bmatrix}
bases               ~ 1010_2 ~ 1010_{2} ~ 1010_{\text{two}} ~ 1010 ~ 1010_\text{two} ~ (1010)_2 ~ 1010_{base~2} ~ \text{1010}_2
mixed               ~ 2\frac{3}{4} ~ \frac{11}{4} ~ 2.75 ~ 2 3/4 ~ 2 \frac{3}{4} ~ 11/4 ~ 2\ \frac34 ~ 2\,\frac{3}{4} ~ 2\text{ }\frac{3}{4}
plus-minus          ~ \pm\sqrt{3} ~ \sqrt3,-\sqrt3 ~ x=\pm\sqrt3 ~ -\sqrt{3}, \sqrt{3} ~ \sqrt3\text{ or }-\sqrt3 ~ \{\pm\sqrt3\} ~ x = \sqrt{3}\text{ and }x=-\sqrt{3}
plus-minus          ~ 2\pm i ~ 2+i,2-i ~ 2-i, 2+i ~ x=2 \pm i ~ \{2+i,2-i\}
text                ~ \text{even} ~ Even ~ even ~ \textit{even} ~ \text{even }
text                ~ \text{Yes} ~ yes ~ YES ~ \text{yes}. ~ \text{ Yes }
text                ~ \text{Friday} ~ Friday ~ friday ~ \mathrm{Friday}
text                ~ \text{ellipse} ~ ellipse ~ an ellipse ~ \text{Ellipse} ~ \textbf{ellipse}
text                ~ \text{Navin} ~ Navin ~ NAVIN
dates               ~ \text{March 5} ~ March 5 ~ march 5 ~ \text{March }5 ~ March 5th
dates               ~ \text{July 4, 1776} ~ July 4, 1776 ~ July 4 1776
expressions         ~ p - q ~ -q+p ~ p-q ~ -(q-p)
expressions         ~ \frac{x+1}{2} ~ 0.5(x+1) ~ \frac12x+\frac12 ~ (x+1)/2 ~ \frac{1}{2}(x+1)
expressions         ~ 2\sqrt{x} ~ 2x^{1/2} ~ 2 \sqrt{x} ~ \sqrt{4x}
expressions         ~ \ln\left|\frac{x}{y}\right| ~ \ln|x/y| ~ \ln|x|-\ln|y|
expressions         ~ e^{-x}(1-x) ~ (1-x)e^{-x} ~ \frac{1-x}{e^x} ~ -e^{-x}(x-1) ~ e^{-x} - xe^{-x}
expressions         ~ \frac{3}{2}a^2b ~ 1.5a^2b ~ \frac{3a^2b}{2} ~ 3a^2b/2
expressions         ~ 10^{\frac{-5+\sqrt{13}}{6}} ~ 10^{\frac{\sqrt{13}-5}{6}} ~ \sqrt[6]{10^{\sqrt{13}-5}}
expressions         ~ x^2+4x+4 ~ (x+2)^2 ~ (x+2)(x+2) ~ x(x+4)+4 ~ x^2 + 4x + 4
expressions         ~ \cos^2 x-\sin^2 x ~ \cos 2x ~ \cos(2x) ~ 2\cos^2x-1
expressions         ~ a_{n}=2n-1 ~ 2n-1 ~ a_n = 2n - 1 ~ a_n=2(n-1)+1
expressions         ~ 2^{2n+1} ~ 2\cdot4^n ~ 2 \cdot 2^{2n} ~ 2^{1+2n}
expressions         ~ 18xyz ~ 18 x y z ~ 18zyx ~ 18\,xyz
expressions         ~ \frac{7}{3} a b^{2} ~ \frac{7ab^2}{3} ~ 7ab^2/3
complex             ~ -1+i\sqrt{3} ~ -1+\sqrt{3}i ~ i\sqrt3-1 ~ 2e^{2\pi i/3} ~ -1 + \sqrt{3} \, i
complex             ~ i ~ \mathrm{i} ~ 1i ~ \sqrt{-1} ~ e^{i\pi/2} ~ 0+1i
scientific          ~ 2.5\times10^{-3} ~ 2.5e-3 ~ 0.0025 ~ 2.5 \cdot 10^{-3} ~ 2.5\times 10^{-3} ~ 25\times10^{-4} ~ 2.5*10^{-3} ~ 2.5E-3 ~ \frac{1}{400} ~ .0025
scientific          ~ 6.02\times10^{23} ~ 6.02e23 ~ 6.02 \times 10^23 ~ 602\times10^{21}
chains              ~ 6 ~ 2+4=6 ~ x=2+4=6 ~ 2 \cdot 3 = 6 ~ 3! = 6 ~ A = \frac12\cdot 3\cdot 4 = 6
chains              ~ \sqrt{2} ~ \sqrt{2}\approx 1.414 ~ x = \sqrt{2} \approx 1.41 ~ \sqrt2 = 1.414\ldots ~ \sqrt{2} \text{ (approximately } 1.414)
comments            ~ 27 ~ 27 \text{ (since } 3^3) ~ 27 \text{ because } 3^3=27 ~ 27 (ways) ~ \text{27 (exactly)}
rounded             ~ 3.14 ~ \pi ~ 3.14 ~ \frac{22}{7}
rounded             ~ 0.667 ~ \frac23 ~ 2/3 ~ 0.667
numina              ~ \left(-\infty ;-\frac{1}{2}\right] \cup[3 ;+\infty) ~ (-\infty,-1/2]\cup[3,\infty) ~ x \le -\frac12 \text{ or } x \ge 3 ~ x \in (-\infty, -0.5] \cup [3, \infty)
numina              ~ x=\frac{\pi}{2}(2n+1), n \in Z ~ x = \frac{\pi}{2} + \pi n ~ \frac{\pi}{2}+n\pi, n\in\mathbb{Z} ~ x=\frac{(2n+1)\pi}{2} \quad (n \in \mathbb{Z})
numina              ~ 2 k \pi+\frac{\pi}{3}(k \in \mathbf{Z}) ~ \frac{\pi}{3}+2k\pi ~ x=\frac{\pi}{3}+2\pi k, \quad k\in\mathbb{Z} ~ 2k\pi+\pi/3, k \in Z
numina              ~ 2n+1, n\in\mathbb{N}^* ~ 2n+1 ~ 1+2n \quad (n \in \mathbb{N}^*)
numina              ~ 39 \mathrm{~cm} ~ 39 ~ 39\text{ cm} ~ 39 \mathrm{cm}
numina              ~ \frac{3}{8} \mathrm{~cm}^2 ~ \frac38 ~ 0.375 ~ \frac{3}{8}\text{ cm}^2
numina              ~ 24 \pi \mathrm{cm}^{2} ~ 24\pi ~ 24\pi\text{ cm}^2
numina              ~ 8 \text{ and } 6 ~ 6, 8 ~ 8,6 ~ 8 and 6
numina              ~ y=2 x+3 \text{ or } y=-2x ~ y=-2x, y=2x+3 ~ y=-2x \text{ or } y = 3+2x
numina              ~ \left\{\begin{array}{l}x=1 \\ y=2\end{array}\right. ~ (1,2) ~ x=1, y=2 ~ x = 1 \text{ and } y = 2
numina              ~ \arccos \frac{1}{3} ~ \cos^{-1}\frac13 ~ \arccos(1/3) ~ \operatorname{arccos} \frac{1}{3}
numina              ~ \operatorname{arctg} \frac{1}{2} ~ \arctan\frac12 ~ \tan^{-1}(0.5) ~ \arctan 0.5
numina              ~ 45^{\circ}, 60^{\circ}, 75^{\circ} ~ 45,60,75 ~ 45°, 60°, 75° ~ 75^\circ, 60^\circ, 45^\circ ~ 45^\circ,60^\circ,\text{ and }75^\circ
numina              ~ 1: \sqrt{2}: \sqrt{3} ~ 1:\sqrt2:\sqrt3 ~ \sqrt2 : 2 : \sqrt6
numina              ~ m=-3 \text{ or } m=1 ~ -3, 1 ~ 1 \text{ or } -3 ~ m = 1, -3 ~ m \in \{-3,1\} ~ \{1,-3\}
numina              ~ -2 \leqslant a \leqslant 2 ~ [-2,2] ~ a \in [-2,2] ~ |a|\le2 ~ -2\le a\le2
numina              ~ \{x \mid -1<x<2\} ~ (-1,2) ~ -1<x<2 ~ \{x: -1 < x < 2\} ~ \left\{x \in \mathbb{R} \mid -1<x<2\right\}
numina              ~ -1 \frac{1}{2} ~ -1.5 ~ -\frac32 ~ -1\frac12
numina              ~ (n+1)!-1 ~ (n+1)! - 1 ~ (n+1)n!-1
numina              ~ x>-1 \text{ and } x \neq 0 ~ (-1,0)\cup(0,+\infty) ~ (-1,\infty)\setminus\{0\} ~ -1<x<0 \text{ or } x>0
numina              ~ x^{2}+y^{2}-4 x-6 y+9=0 ~ (x-2)^2+(y-3)^2=4 ~ x^2+y^2=4x+6y-9
numina              ~ \log _{2} 3 ~ \log_2 3 ~ \log_2(3) ~ \frac{\lg 3}{\lg 2}
numina              ~ f(n)=n+1 ~ n+1 ~ f(n) = n + 1 ~ f(x)=x+1
numina              ~ f(x)=0, f(x)=x ~ f(x)=x, f(x)=0 ~ f(x)=x \text{ or } f(x)=0
numina              ~ 15 \text{ km/h} ~ 15 ~ 15 \mathrm{~km} / \mathrm{h} ~ 15 km/h ~ 15\ \text{kilometers per hour}
numina              ~ \text { odd } ~ odd ~ Odd ~ \text{odd}
numina              ~ a=1, b=2, c=3 ~ (1,2,3) ~ a=1,b=2,c=3 ~ (a,b,c)=(1,2,3) ~ c=3, b=2, a=1
numina              ~ x_{1}=2, y_{1}=3 ; x_{2}=4, y_{2}=5 ~ x_1=2,y_1=3;x_2=4,y_2=5
numina              ~ (3,4),(4,3) ~ (4,3),(3,4) ~ (x,y)=(3,4) \text{ or } (4,3) ~ (3,4) \text{ and } (4,3)
numina              ~ 2 \cdot 3^{2} \cdot 5 ~ 90 ~ 2\times 3^2\times5
numina              ~ \frac{a^{2} \sqrt{3}}{4} ~ \frac{\sqrt3}{4}a^2 ~ \frac{\sqrt{3} a^2}{4} ~ 0.25\sqrt3a^2
numina              ~ 11\sqrt{3} ~ 11 \sqrt{3} \text{ units}^2 ~ 11\sqrt{3}\text{ square units}
numina              ~ 4.5\% ~ 4.5 ~ 4.5\text{\%} ~ 0.045
numina              ~ x \approx 2.35 ~ 2.35 ~ x=2.35
numina              ~ \text{Not possible} ~ not possible ~ Not possible.
numina              ~ 2^{100}-1 ~ -1+2^{100} ~ 4^{50}-1
numina              ~ \sin \alpha=\frac{3}{5} ~ \frac35 ~ 0.6
numina              ~ k=\frac{1}{4}\text{ or }k=-1 ~ -1,\frac14 ~ k=-1, k=1/4
prm                 ~ 1 \pm \sqrt{19} ~ 1 + \sqrt{19}, 1 - \sqrt{19} ~ 1-\sqrt{19}, 1+\sqrt{19}
prm                 ~ \frac{3}{56} ~ 3/56 ~ \frac{6}{112} ~ \dfrac{3}{56}
prm                 ~ (-2,1) ~ (-2, 1) ~ \left( -2, 1 \right) ~ ( -2 , 1 )
prm                 ~ 5x^2 ~ 5 x^2 ~ 5x^{2} ~ 5\cdot x^2
prm                 ~ 8\% ~ 8 ~ 8 percent ~ 8\%
prm                 ~ 10{,}000 ~ 10000 ~ 10,000 ~ 10,\!000 ~ 10 thousand
prm                 ~ \frac{1}{\sqrt{2}} ~ \frac{\sqrt{2}}{2} ~ 1/\sqrt{2} ~ 2^{-0.5} ~ \sqrt{\frac12}
prm                 ~ -\frac{7}{16}x^4-3x^3 ~ -3x^3-\frac{7x^4}{16} ~ - \frac{7}{16} x^4 - 3 x^3
prm                 ~ 10\text{ inches} ~ 10 ~ 10 in ~ 10\text{ in.} ~ 10"
prm                 ~ \text{June 20} ~ June 20 ~ june 20 ~ June 20th
prm                 ~ 4 ~ 4.0 ~ four ~ \sqrt{16} ~ 2^2 ~ +4 ~ \frac{8}{2} ~ x = 4 ~ 4\text{ cm} ~ (4) ~ $4$ ~ 4. ~ |-4| ~ \left|-4\right|
prm                 ~ 3a+2 ~ 2+3a ~ 3\cdot a+2 ~ 3 a + 2
prm                 ~ \{2,4,6\} ~ \{6,2,4\} ~ 2, 4, 6 ~ \left\{ 2, 4, 6 \right\}
prm                 ~ [0,\infty) ~ [0, \infty) ~ x\geq 0 ~ y \ge 0 ~ [0,+\infty) ~ \left[0,\infty\right)
minerva             ~ 1.6\times10^{-19} ~ 1.6e-19 ~ 1.6 \times 10^{-19} ~ 1.6 \cdot 10^{-19} \text{ C} ~ 1.6\times10^{-19}\mathrm{~C} ~ 1.6 × 10^−19
minerva             ~ \frac{dy}{dx}=2x ~ 2x ~ y'=2x ~ \frac{dy}{dx} = 2 x
minerva             ~ y(t)=e^{-t} ~ e^{-t} ~ y=e^{-t} ~ y(t) = \exp(-t)
minerva             ~ \theta=\tan^{-1}(\mu) ~ \arctan\mu ~ \arctan{\mu} ~ \tan^{-1}\mu
minerva             ~ I_0 e^{-t/\tau} ~ I_{0} \exp(-t/\tau) ~ I_0e^{-\frac{t}{\tau}}
minerva             ~ \frac{1}{2} m v^2 ~ \frac{mv^2}{2} ~ 0.5mv^2 ~ mv^{2}/2
minerva             ~ 4080 ~ 4080 \text{ \AA} ~ 4080\mathrm{~K} ~ 4.08\times10^3
simple              ~ 2x+3 ~ 3+2x
simple              ~ 3/2 ~ 1.5
simple              ~ x^2+2x+1 ~ (x+1)^2
simple              ~ 649 ~ 3245/5
simple              ~ 2/(-3) ~ -2/3
simple              ~ 72 degrees ~ 72
simple              ~ 64 ~ 64 square feet ~ 64 sq ft ~ 64\text{ ft}^2 ~ 64 ft²
latex2sympy         ~ \frac{1}{2}+\frac{1}{3} ~ \frac56 ~ 5/6
latex2sympy         ~ \log_{10}{100} ~ 2 ~ \log_{2}{4}
latex2sympy         ~ \left\lfloor 3.5 \right\rfloor ~ 3 ~ \floor(3.5) ~ floor(3.5)
latex2sympy         ~ \gcd(18, 12) ~ 6 ~ \gcd\left(18,12\right)
latex2sympy         ~ 128 \bmod 3 ~ 2 ~ 128 \mod 3
latex2sympy         ~ \left|\frac{-1}{2}\right| ~ \frac12
latex2sympy         ~ e^{\ln(5)} ~ 5
latex2sympy         ~ 5! ~ 120 ~ (5)!
latex2sympy         ~ \sqrt[3]{8} ~ 2
latex2sympy         ~ \sinh(0) ~ 0
latex2sympy         ~ \cos(0) ~ 1 ~ \cos 0
latex2sympy         ~ \max(1,2,3) ~ 3
latex2sympy         ~ \frac{d}{dx}x^2 ~ \frac{d}{dx} x^2 ~ \frac{d}{dx}(x^2)
latex2sympy         ~ x\times y ~ xy ~ x*y ~ x \cdot y
latex2sympy         ~ 10\% ~ 0.1
latex2sympy         ~ \$10,000 ~ 10000 ~ \$10{,}000.00
latex2sympy         ~ \begin{bmatrix}1\\2\\3\end{bmatrix} ~ \begin{pmatrix}1\\2\\3\end{pmatrix} ~ [1,2,3]^T
plain               ~ x^2+2x+1 ~ x^2 + 2*x + 1 ~ x² + 2x + 1 ~ x**2+2*x+1 ~ (x+1)^2 ~ (x + 1)**2
plain               ~ \frac{\sqrt3}{2} ~ sqrt(3)/2 ~ √3/2 ~ √(3)/2 ~ (√3)/2 ~ (1/2)sqrt(3) ~ sqrt3/2 ~ \sqrt{3}/2 ~ \sqrt{\frac{3}{4}} ~ sin(60°) ~ cos(pi/6)
plain               ~ \frac{3\pi}{4} ~ 3pi/4 ~ 3π/4 ~ (3/4)π ~ 3*pi/4 ~ 0.75pi ~ \frac34\pi ~ \dfrac{3\pi}{4} ~ 3\pi/4 \text{ radians} ~ \frac{3\pi}{4}\text{ rad}
plain               ~ \sqrt[3]{2} ~ 2^(1/3) ~ cbrt(2) ~ 2^{1/3} ~ ∛2
plain               ~ e^{2x} ~ e^(2x) ~ exp(2x) ~ (e^x)^2 ~ e^{x}e^{x} ~ \exp{(2x)} ~ \mathrm{e}^{2x}
plain               ~ x\ge2 ~ x >= 2 ~ x ≥ 2 ~ [2, oo) ~ [2, inf) ~ [2, infinity) ~ 2 <= x
plain               ~ x\neq3 ~ x ≠ 3 ~ x != 3 ~ x \not= 3 ~ \{x | x \neq 3\} ~ x \in \mathbb{R}, x \neq 3
plain               ~ [-1,4) ~ -1 <= x < 4 ~ -1 ≤ x < 4 ~ [-1, 4) ~ x >= -1 and x < 4
plain               ~ 3,-3 ~ ±3 ~ x = ±3 ~ 3 and -3 ~ +/-3 ~ \pm 3 ~ 3 or -3 ~ x = 3 or x = -3 ~ x=-3, 3
plain               ~ 0.001 ~ 10^-3 ~ 10^{-3} ~ 1e-3 ~ 1/1000 ~ 1.0 × 10^-3 ~ 1 \times 10^{-3} ~ .001
plain               ~ \frac53 ~ 1 2/3 ~ 1\frac23 ~ 5/3 ~ 1 \frac{2}{3} ~ 5 / 3 ~ 1.\overline{6} ~ 1.6666... ~ \frac{5}{3} \approx 1.67
plain               ~ 5:3 ~ 5 : 3 ~ 5 to 3 ~ 10:6 ~ 5/3 ~ \frac{5}{3}
plain               ~ 120^\circ ~ 120 deg ~ 120 degrees ~ 120° ~ 120 ~ 120\text{ deg} ~ 120^{\circ} ~ 120^o
plain               ~ 12\text{ cm}^2 ~ 12 cm² ~ 12 cm^2 ~ 12cm^2 ~ 12 square cm ~ 12 sq. cm ~ 12 ~ 12\text{cm}^2 ~ 12\,\mathrm{cm}^{2}
plain               ~ \$12 ~ $12 ~ 12 dollars ~ 12 ~ \$12.00 ~ 12\text{ dollars} ~ 12\$ ~ USD 12 ~ \text{\$}12
plain               ~ 5 ~ €5 ~ £5 ~ 5 € ~ ¥5
plain               ~ 50\% ~ 50 percent ~ 50% ~ 50 % ~ 0.50 ~ 50\text{ percent}
plain               ~ 2 \pmod 5 ~ 2 (mod 5) ~ x \equiv 2 \pmod{5} ~ 2 mod 5 ~ x ≡ 2 (mod 5) ~ 7 \pmod 5
plain               ~ \text{no real roots} ~ no real roots ~ No real roots.
plain               ~ \text{infinitely many} ~ infinitely many ~ Infinitely many
plain               ~ (\frac12,3) ~ (1/2, 3) ~ (0.5, 3) ~ \left(\frac{1}{2}, 3\right) ~ x = 1/2, y = 3 ~ (x, y) = (1/2, 3) ~ ( \frac{1}{2} , 3 )
plain               ~ \frac{x+1}{x-1} ~ (x+1)/(x-1) ~ \frac{1+x}{x-1} ~ 1+\frac{2}{x-1} ~ -\frac{x+1}{1-x}
plain               ~ 3x^2y ~ 3x²y ~ 3*x^2*y ~ 3yx^2 ~ 3 x^2 y
plain               ~ \frac{1}{2}x ~ x/2 ~ 0.5x ~ \frac{x}{2} ~ (1/2)x ~ 1/2 x
plain               ~ \ln 2 ~ ln(2) ~ ln 2 ~ \ln(2) ~ \log_e 2 ~ -\ln\frac12 ~ \ln{2}
plain               ~ \log_2 5 ~ log_2(5) ~ log_2 5 ~ \log_{2}{5} ~ ln5/ln2 ~ \frac{\log 5}{\log 2}
plain               ~ 2\sin x\cos x ~ sin(2x) ~ \sin 2x ~ 2 sin x cos x ~ 2\sin(x)\cos(x) ~ 2 \cos x \sin x
plain               ~ x=3,y=4 ~ x = 3, y = 4 ~ x=3 and y=4 ~ (3,4) ~ x=3; y=4 ~ y=4, x=3 ~ x=3,~y=4
plain               ~ \{1,2,3\} ~ {1, 2, 3} ~ {1,2,3} ~ 1, 2, 3 ~ 1, 2 and 3 ~ 1,2,3 ~ \{1, 2, 3\}. ~ 1, 2, and 3
plain               ~ \frac{a}{b} ~ a/b ~ \dfrac ab ~ \frac ab ~ ab^{-1} ~ a \div b
plain               ~ 2a+3b ~ 3b+2a ~ 2\cdot a+3\cdot b ~ 2a + 3b
plain               ~ 1/4 ~ 0.25 ~ 25% ~ one fourth ~ \frac14 ~ 1 / 4 ~ \frac{25}{100} ~ .25 ~ 2^{-2}
plain               ~ 10 ~ ten ~ 10. ~ 10.00 ~ 10 \text{ (units)} ~ 10! / 9! ~ "10" ~ '10' ~ 10 people. ~ 10 students ~ 10 ways ~ 10 cm ~ 10 (ten) ~ x = 10 ~ n=10. ~ \underline{\textbf{10}} ~ \(10\) ~ \[10\] ~ $$10$$ ~ \color{red}{10} ~ \textcolor{blue}{10} ~ {\color{blue}10} ~ \mathbf{10} ~ \bf 10 ~ 10\\ ~ \approx 10 ~ = 10 ~ 10\text{ .} ~ 10 \quad ~ \fbox{10} ~ \boxed{10}.
plain               ~ -4 ~ −4 ~ – 4 ~ -4.0 ~ negative 4 ~ minus 4 ~ (-4) ~ -\frac{8}{2} ~ x=-4 ~ -4^1
plain               ~ (C) ~ \text{C} ~ (C) \frac12 ~ C: 5 ~ C. 5 ~ C ~ \textbf{C} ~ option C ~ Option (C) ~ choice (C) ~ answer: C ~ **C**
plain               ~ i\sqrt2 ~ \sqrt{2}i ~ \sqrt{2} i ~ \sqrt{-2} ~ i \sqrt{2} ~ \sqrt2\,i
plain               ~ 3-2i ~ -2i+3 ~ 3 - 2 i ~ 3-2\mathrm{i} ~ 3 + (-2)i
plain               ~ f^{-1}(x)=\frac{x-3}{2} ~ \frac{x-3}{2} ~ f^{-1}(x) = (x-3)/2 ~ y=\frac{x-3}{2} ~ \frac12 x-\frac32
plain               ~ a_n=3\cdot2^{n-1} ~ 3\cdot 2^{n-1} ~ a_n = 3(2)^{n-1} ~ 3 \cdot 2^{n - 1} ~ \frac32\cdot 2^n ~ a_{n}=3\times2^{n-1}
plain               ~ 2\times2 ~ 4 ~ 2\cdot2
plain               ~ \begin{pmatrix}1&0\\0&1\end{pmatrix} ~ \begin{bmatrix}1&0\\0&1\end{bmatrix} ~ [[1,0],[0,1]] ~ \begin{array}{cc}1&0\\0&1\end{array} ~ \left[\begin{array}{rr}1&0\\0&1\end{array}\right] ~ \begin{Bmatrix}1&0\\0&1\end{Bmatrix} ~ \bigl(\begin{smallmatrix}1&0\\0&1\end{smallmatrix}\bigr)
plain               ~ \begin{pmatrix}3\\-1\end{pmatrix} ~ \langle 3,-1\rangle ~ (3,-1) ~ \begin{bmatrix}3\\-1\end{bmatrix} ~ [3,-1]^T
plain               ~ 1+2+3 ~ 6
plain               ~ \frac{3}{4}\text{ cup} ~ 3/4 ~ 0.75 ~ \frac34 cups ~ three fourths
plain               ~ 1/3 ~ \frac13 ~ 0.333... ~ 0.\bar3 ~ 0.\overline{3} ~ 33\frac13\% ~ .\overline{3} ~ one third ~ 0.\overline{333}
named               ~ \sqrt2 ~ \max(1,\sqrt2) ~ \min\{\pi,\sqrt 2, 2\} ~ \sqrt{\gcd(6,4)} ~ \max(\sqrt2,1.4)
units               ~ 120\text{ cm}^2 ~ 120 ~ 120 square centimeters ~ 120 sq cm ~ 120\text{ cm} ~ 120 square units
units               ~ 60\text{ mph} ~ 60 miles per hour ~ 60 mi/h ~ 60 \frac{\text{mi}}{\text{h}} ~ 60 miles
units               ~ \$18\text{ per hour} ~ \$18 ~ 18 dollars per hour ~ 18
set builder         ~ (-\infty,-1)\cup(2,\infty) ~ \{x : x < -1 \text{ or } x > 2\} ~ \{x \in \mathbb{R} \mid x < -1 \text{ or } x > 2\}
set builder         ~ [-2,3) ~ \{x \mid x \ge -2, x < 3\} ~ \{x \in \mathbb{R} : -2 \le x < 3\} ~ \{x: x\ge-2 \text{ and } x<3\}
set builder         ~ \{2k\pi \mid k \in \mathbb{Z}\} ~ 2k\pi, k\in\mathbb{Z} ~ \{2\pi k : k\in\mathbb{Z}\} ~ 2k\pi
set builder         ~ \{(x,y) \mid y = 2x\} ~ y=2x ~ \{(x,y) : 2x = y\}
words               ~ \frac23 ~ two-thirds ~ two thirds ~ \text{two-thirds}
words               ~ \frac32 ~ three halves ~ three-halves ~ 3 halves ~ 1.5
words               ~ 7 ~ \text{seven} ~ \text{Seven} ~ exactly 7
spellings           ~ \mathbb{R}\setminus\{2\} ~ \mathbb{R} - \{2\} ~ \mathbb{R}-\left\{2\right\} ~ (-\infty,2)\bigcup(2,\infty) ~ x\ne2
spellings           ~ \begin{pmatrix}1&2\\3&4\end{pmatrix} ~ \begin{bmatrix} 1 & 2 \cr 3 & 4 \end{bmatrix}
spellings           ~ 101_2 ~ 101 \text{ base } 2 ~ 101\text{ (base 2)} ~ 101_{\text{base 2}}
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
money               ~ \$5 ~ 5 cents ~ 5\text{ cents} ~ 5¢ ~ \$50 ~ \$0.05 ~ 5 million
dozen               ~ 3 ~ 3 dozen ~ 3 million ~ 3 hundred ~ 3_4 ~ 3_{5} ~ 3\text{ dozen} ~ 3 thousand
times               ~ 12:30 ~ 2/5 ~ 0.4 ~ 12.5 ~ 6:15 ~ 12:3 ~ 12:31 ~ 1230
times               ~ 6:00\text{ PM} ~ 6:00 AM ~ 6 am ~ 6:30 PM ~ 7 PM ~ 6
times               ~ 6:30 ~ 1/5 ~ 0.2 ~ 6:3
rounded             ~ \frac17 ~ 0.142857 ~ 0.1428571 ~ 0.14 ~ 0.142857143 ~ \frac{142857}{1000000}
rounded             ~ \frac{355}{113} ~ 3.1415929 ~ \pi ~ 3.14159
rounded             ~ \pi ~ 3.141592653 ~ 3.1416 ~ 3.14 ~ \frac{355}{113}
rounded             ~ \sqrt{2} ~ 1.41421356 ~ 1.41421356237 ~ 1.414
rounded             ~ \frac{1}{3} ~ 0.333333 ~ 0.3333333333 ~ 33\% ~ 33.33\%
rounded             ~ 0.33 ~ 0.333 ~ 0.34 ~ 0.3
rounded             ~ 0.142857 ~ 0.142858 ~ 0.14286
congruences         ~ n\equiv 3\pmod 7 ~ n\equiv 4\pmod 7 ~ n\equiv 3\pmod 5 ~ 10 ~ n \equiv -3 \pmod 7 ~ 7 ~ n=3
choices             ~ \text{(B)} ~ C) ~ \boxed{C} ~ (BC) ~ (B) or (C) ~ A) ~ b^2 ~ not B ~ B^c ~ B' ~ E
choices             ~ A,C ~ A ~ C ~ A,B ~ A, B, C ~ B, D ~ AC_2
labels              ~ f(x)=2x+1 ~ y=2x-1 ~ f(x)=x+1 ~ 2x-1 ~ x=2y+1 ~ f(x)=2y+1
labels              ~ f(x)=x^2 ~ g(x)=x ~ f(2)=4 ~ f(x)=x^3 ~ f(x)
labels              ~ p=\frac14 ~ 4\% ~ 40\% ~ q=\frac34 ~ 2.5\%
absolute            ~ |x|<3 ~ |x|\le3 ~ x<3 ~ -3\le x<3 ~ |x|>3 ~ (-\infty,-3)\cup(3,\infty) ~ 3
absolute            ~ |x-2|\ge 3 ~ |x-2|\le 3 ~ |x-3|\ge 2 ~ [-1,5]
binomials           ~ \binom n3 ~ \binom 3n ~ n^3 ~ \frac n3 ~ C(n,4) ~ C(3,n) ~ P(n,3)
points              ~ (5,3) ~ C(5,3)=10 ~ 10 ~ (3,5) ~ 5,3,0
integrals           ~ \frac{x^3}{3}+C ~ \frac{x^3}{3}+2 ~ \frac{x^2}{3}+C ~ \frac{x^3}{3}C ~ \frac{x^3}{3}-x+C
integrals           ~ a+b+C ~ a+b+c
sums                ~ \sum_{k=1}^{10} k ~ 45 ~ \sum_{k=1}^{9}k ~ 10k ~ k ~ \prod_{k=1}^{10}k ~ \sum_{k=0}^{11} k
determinants        ~ \begin{vmatrix}1&2\\3&4\end{vmatrix} ~ 2 ~ 10 ~ \begin{pmatrix}1&2\\3&4\end{pmatrix} ~ \begin{vmatrix}2&1\\3&4\end{vmatrix}
named               ~ 6 ~ \gcd(12,17) ~ \max(5,7) ~ \min(6,5) ~ \operatorname{lcm}(4,3) ~ \lfloor 5.9\rfloor ~ \gcd(6)x
named               ~ \max(a,b) ~ \min(a,b) ~ a ~ a+b ~ \max(a,c)
equations           ~ xy=1 ~ x+y=1 ~ y=x ~ y=-\frac1x ~ xy=2 ~ y=\frac{1}{x}+1 ~ 1 ~ \frac{x}{y}=1
equations           ~ \frac{x^2}{4}+\frac{y^2}{9}=1 ~ \frac{x^2}{9}+\frac{y^2}{4}=1 ~ \frac{x^2}{4}-\frac{y^2}{9}=1 ~ 9x^2+4y^2=1 ~ 1
equations           ~ y=x^2 ~ x=y^2 ~ y=x^3 ~ y=-x^2 ~ y^2=x ~ y = x^2+0.001
systems             ~ x=1,y=2 ~ (2,1) ~ x=2,y=1 ~ x=1 ~ 1 ~ x=1,y=3 ~ x=1 \text{ or } y=-2
or                  ~ \{1,-2\} ~ \{1,2\} ~ 1 ~ -2 ~ x=1 \text{ or } x=2 ~ 1-2 ~ \{1,-2,0\} ~ [1,-2] ~ 1,-2,3
intervals           ~ [-5,3) ~ (-5,3] ~ (-5,3) ~ [-5,3] ~ -5<x\le3 ~ [3,-5) ~ x\ge-5 ~ x<3 ~ \{-5,3\} ~ [-5,4)
intervals           ~ (0,1)\cup(1,\infty) ~ (0,\infty) ~ x>0 ~ x\ne1 ~ (0,1),(1,\infty) ~ (0,1)\cup[1,\infty) ~ x>1
intervals           ~ \mathbb{R} ~ \mathbb{Z} ~ \mathbb{Q} ~ \mathbb{C} ~ [0,\infty) ~ \mathbb{R}\setminus\{0\} ~ \mathbb{R}^2 ~ 0 ~ \mathbb{N}
intervals           ~ [1,4] ~ [1,4)\cup(4,5] ~ [1,2]\cup[3,4] ~ [1,4]\cap[2,3] ~ (1,4)
empty               ~ \emptyset ~ 0 ~ \{0\} ~ \{\emptyset\} ~ none of these ~ one solution ~ \mathbb{R} ~ 1
undefined           ~ \text{undefined} ~ defined ~ 0 ~ \infty ~ \text{not undefined}
units               ~ 5\text{ cm} ~ 5\text{ m} ~ 5\text{ cm}^2 and 3 ~ 5\text{ km} ~ 50 ~ 5\text{ kg} ~ 5 x ~ 5,5
thousands           ~ 1{,}000 ~ 1 ~ 1,00 ~ 1.000.000 ~ 100 ~ 10000 ~ 1,0,0,0
thousands           ~ 12,345 ~ 12.345 ~ 12 ~ 345 ~ 12,3,45 ~ 12,346 ~ 12345.6
decimal comma       ~ 1,5 ~ 15 ~ 1 ~ 5 ~ 1,5,1 ~ 1.51
fractions           ~ \frac12 ~ 12 ~ 1,2 ~ 21 ~ 2 ~ \frac21 ~ \frac{1}{2}x ~ \frac{1}{2},\frac12,1 ~ \frac{12}{}
fractions           ~ \frac{1}{2x} ~ \frac12x ~ 1/2x+1 ~ \frac{x}{2} ~ \frac{2}{x}
percent             ~ 50\% ~ 5 ~ 500 ~ 0.05 ~ 0.5\% ~ 5\% ~ 50.5\% ~ \frac{1}{50}
percent             ~ 0.5 ~ 0.5\% ~ 5\% ~ 500\%
ordered             ~ (1,2,3) ~ (3,2,1) ~ (1,2) ~ \{1,2,3\} ~ (1,3,2) ~ 123
matrices            ~ \begin{pmatrix}1&2\\3&4\end{pmatrix} ~ [[1,2],[4,3]] ~ [[1,3],[2,4]] ~ [1,2,3,4] ~ ((1,2),(3,5)) ~ \begin{pmatrix}1&2\end{pmatrix} ~ \begin{pmatrix}2&4\\6&8\end{pmatrix} ~ -2
bases               ~ 1010_2 ~ 1010_3 ~ 10 ~ 1010_{10} ~ 101_2 ~ 1011_2 ~ 10102 ~ A_{16}
mixed               ~ 2\frac34 ~ \frac{6}{4} ~ \frac{23}{4} ~ 1.5 ~ 2,\frac34 ~ 2.34 ~ 23/4 ~ 2\cdot\frac34 ~ 2-\frac34
plus-minus          ~ \pm\sqrt{3} ~ \sqrt3 ~ -\sqrt3 ~ \pm3 ~ 3 ~ \pm\sqrt3 i ~ \sqrt{3},\sqrt3
text                ~ \text{even} ~ odd ~ not even ~ even and odd ~ neither ~ evening ~ the function is not even
text                ~ \text{Yes} ~ No ~ Yes and no ~ not Yes ~ yes if x>0 ~ No, yes
text                ~ \text{Friday} ~ Saturday ~ not Friday ~ Friday or Saturday ~ Fri ~ before Friday
dates               ~ \text{March 5} ~ March 6 ~ March ~ 5 ~ May 5 ~ March 15 ~ 5 March 2
complex             ~ 2+3i ~ 2-3i ~ 3+2i ~ 2+3 ~ 2+3j ~ -2+3i ~ 2,3i ~ 6i ~ 2+3I_1
expressions         ~ p-q ~ q-p ~ p+q ~ p ~ pq ~ \frac pq ~ p-q-1 ~ P-Q
expressions         ~ e^{-x} ~ e^x ~ -e^x ~ \frac{1}{e}x ~ ex ~ e^{-2x}
expressions         ~ \sqrt{a^2+b^2} ~ a+b ~ \sqrt{a^2}+b^2 ~ \sqrt{a^2-b^2} ~ a^2+b^2 ~ \sqrt{a+b}
expressions         ~ \ln x ~ \log_{10} x ~ \ln y ~ \ln(x)+1 ~ \ln^2 x ~ x
expressions         ~ (x+2)^2 ~ x^2+4 ~ x^2+2x+4 ~ (x-2)^2 ~ x+2^2 ~ (x+2)2
expressions         ~ \frac{n(n+1)}{2} ~ n(n+1) ~ n(n+1/2) ~ \frac{n(n-1)}{2} ~ \frac{n}{2}(n+1)+1 ~ n\frac{n+1}{3}
numbers             ~ 7 ~ -7 ~ 7.1 ~ 77 ~ 7! ~ 7\% of 10 ~ \sqrt7 ~ 7^2 ~ at least 7 ~ less than 7 ~ not 7 ~ 7 or 8 ~ 6.9999999 ~ 07_8 ~ 7i ~ 7\pi ~ between 7 and 8 ~ x \ge 7 ~ \frac{7}{2} ~ 0.7 ~ 7,8 ~ 700 ~ 7n ~ seventy
numbers             ~ 1000 ~ 1000.1 ~ 999.9999999 ~ 100 ~ 10^4 ~ 1e4 ~ 1,00 ~ 10,00
scientific          ~ 2.5\times10^{-3} ~ 2.5\times10^3 ~ 2.5 ~ -2.5\times10^3 ~ 2.5\times10^{-4} ~ 2.5e3 ~ 25e-3
infinity            ~ \infty ~ -\infty ~ \pm\infty ~ 0 ~ \frac{1}{\infty} ~ undefined ~ (0,\infty)
numina              ~ \frac{\pi}{4}+k\pi, k\in\mathbb{Z} ~ \frac{\pi}{4} ~ \frac{\pi}{4}+2k\pi ~ k\pi
numina              ~ \mathbb{Z} ~ \mathbb{Q} ~ \mathbb{N} ~ Z_5
numina              ~ x^2+2x+1 ~ y^2+2y+1
numina              ~ 45^\circ ~ \frac{\pi}{4} ~ 45 rad
numina              ~ m=-3 \text{ or } m=1 ~ -3 ~ m=3, m=-1 ~ (-3,1) \cup \{2\}
numina              ~ a=1, b=2, c=3 ~ a=2,b=1,c=3 ~ (3,2,1) ~ (1,2)
numina              ~ 1: \sqrt{2}: \sqrt{3} ~ 1:\sqrt3:\sqrt2 ~ 1:\sqrt2
numina              ~ f(x)=0, f(x)=x ~ f(x)=x ~ f(x)=0 ~ f(x)=0,f(x)=2x
numina              ~ (3,4),(4,3) ~ (3,4) ~ (4,3) ~ 3,4
numina              ~ 8 \text{ and } 6 ~ 8 ~ 6 ~ 14 ~ 86
numina              ~ \text{odd} ~ even ~ d o d
numina              ~ y=2x+3 \text{ or } y=-2x ~ y=2x+3 ~ y=-2x ~ y=2x-3, y=-2x
numina              ~ 10\text{ in} ~ 10 ft ~ 10\text{ cm}
minerva             ~ y(t)=e^{-t} ~ y(t)=e^{t} ~ e^{-x} ~ -e^{-t}
minerva             ~ 1.6\times10^{-19} ~ 1.6\times10^{19} ~ 1.6 ~ 1.6\times10^{-18} ~ 0
minerva             ~ \frac12mv^2 ~ mv^2 ~ \frac12mv ~ \frac{1}{2mv^2} ~ \frac12 m^2v
latex2sympy         ~ 128 \bmod 3 ~ 128 ~ 3 ~ 1
latex2sympy         ~ \sqrt[3]{8} ~ 3\sqrt8 ~ 8 ~ \sqrt8 ~ 24
latex2sympy         ~ x\times y ~ x+y ~ x^y ~ x/y
mv                  ~ n=2,3,4 ~ 1,2,3 ~ 1,2,3,\ldots ~ 2,3 ~ n=2,3,4,5
mv                  ~ 1,2,3,\ldots ~ 1,2,3 ~ 1,2,3,4
mv                  ~ 10^{-10} ~ 0 ~ 10^{-11} ~ 1
mv                  ~ x+y=3 ~ x-y=3 ~ x+y ~ x+y=4 ~ x=3-z
mv                  ~ (x-1)(x-2)=0 ~ (x-1)(x-3)=0 ~ 0
mv                  ~ [0,1] ~ (0,1) ~ [0,1) ~ \{0,1\} ~ 0,1
mv                  ~ x<1 ~ x>1 ~ x\le1 ~ -x<1 ~ x<-1 ~ |x|<1
mv                  ~ 2/3 ~ 0.67 ~ 0.66 ~ 3/2 ~ 2/30
mv                  ~ \sqrt{2} ~ 1.4142 ~ \sqrt{3} ~ 2 ~ \sqrt[3]{2}
mv                  ~ 3.14 ~ 3.15 ~ 3.1 ~ 314
mv                  ~ 1,000 ~ 1 ~ 1000.5 ~ 10,00
mv                  ~ \frac{1}{2}, \frac{1}{3} ~ \frac12 ~ \frac13 ~ \frac12,\frac14 ~ (\frac13,\frac12)
mv                  ~ A \cup B ~ A \cap B ~ A ~ B \setminus A
mv                  ~ \text{A and B} ~ A ~ B ~ A or C
mv                  ~ A \to B ~ B \to A
mv                  ~ A\subset B ~ B\subset A
mv                  ~ \vec{a}\cdot\vec{b} ~ \vec{a}+\vec{b} ~ \vec{a}
mv                  ~ \int_0^1 x dx ~ \int_0^2 x dx ~ x
mv                  ~ \lim_{x\to0} x ~ \lim_{x\to1}x ~ x
mv                  ~ x^{10} ~ x^1 ~ 10x
mv                  ~ \sin^2 x ~ \sin x^2 ~ \sin 2x ~ 2\sin x
mv                  ~ \log_2 8x ~ \log_2 8 \cdot x^2 ~ 3x
mv                  ~ a_1 ~ a^1 ~ a1 ~ a
mv                  ~ 5\% ~ 5/1000 ~ 50\% ~ 0.005
mv                  ~ 0.05 ~ 0.05\% ~ 0.5\%
mv                  ~ 1 ~ 10^{-2}
mv                  ~ -5 ~ 5 ~ --5 ~ |-5| ~ - 5 + 1
mv                  ~ 5 ~ -5 ~ |5|-1 ~ 5i ~ 5,5 ~ 5.05 ~ 5/1.01 ~ five and a half ~ 5 or 6 ~ 5 to 6 ~ 5-6 ~ 5:6 ~ 5\pm1 ~ 5^5 ~ 55 ~ 0.5 ~ 5 < x ~ x\ne5 ~ x<5 ~ 5+C ~ (5,5) ~ [5,5,5]
mv                  ~ 2 ~ 2\text{ and }3 ~ x=2,y=3 ~ 2;3 ~ 2 \text{ or } -2 ~ 2\cdot x ~ 2/ x ~ 2 - x
mv                  ~ x=2 ~ x=2,3 ~ x=-2 ~ x=2y ~ x\le 2 ~ x=2 \text{ or } x=3 ~ y=2 ~ 2x ~ x^2=4 ~ x-2
mv                  ~ y=x ~ y=-x ~ x=0 ~ y=x+1 ~ -x
mv                  ~ \frac{x}{y} ~ \frac{y}{x} ~ xy ~ x-y ~ \frac{x}{y+1}
mv                  ~ \frac{1}{x-1} ~ \frac1x-1 ~ \frac{1}{1-x} ~ x-1
mv                  ~ 3x+5 ~ 3x ~ 5+x ~ 3(x+5) ~ 8x ~ 3y+5
mv                  ~ (2,3) ~ (3,2) ~ (2,3] ~ 2,3,4 ~ 2.3 ~ 23 ~ (2,-3) ~ (2,3,0) ~ x=2 ~ \{3,2\}
mv                  ~ \{1,2\} ~ (1,2) ~ [1,2] ~ 1 ~ \{1,2,2,3\} ~ \{\{1\},\{2\}\} ~ \{1.2\}
mv                  ~ i ~ -i ~ 1 ~ \sqrt{1} ~ I ~ l ~ j
mv                  ~ e ~ E ~ 2.718 ~ 2.71828 ~ \epsilon
mv                  ~ \ln 2 ~ 0.693 ~ \log_{10} 2 ~ \ln 3 ~ \log_2 e ~ 0.69314718
mv                  ~ 2^n ~ n^2 ~ 2n ~ 2^{n+1} ~ 2^{-n} ~ 2^k
mv                  ~ n! ~ n ~ (n-1)! ~ n!! ~ \Gamma(n)
mv                  ~ \frac{n!}{k!(n-k)!} ~ \binom{k}{n} ~ \frac{n!}{k!} ~ \binom{n}{k+1}
mv                  ~ 7:30 ~ 7.5 ~ 7:31 ~ 730 ~ 7:3
mv                  ~ \text{red} ~ blue ~ dread ~ not red ~ red and blue ~ r e d d
mv                  ~ \text{decreasing} ~ increasing ~ non-decreasing ~ not decreasing
mv                  ~ \text{parallel} ~ perpendicular ~ not parallel
mv                  ~ \text{Monday} ~ Sunday ~ Mondays and Tuesdays
mv                  ~ \text{positive} ~ negative ~ non-negative ~ not positive
mv                  ~ 3\text{ hours} ~ 3\text{ minutes} ~ 3 days ~ 180
mv                  ~ \$3.50 ~ 3.05 ~ 350 ~ 3.5 cents ~ \$35
mv                  ~ 10^{20} ~ 10^{20}+1 ~ 100000000000000000001 ~ 10^{21}
mv                  ~ 0.1 ~ 0.10000001 ~ 1/11 ~ 0.01 ~ 1\%
mv                  ~ 99.9 ~ 100 ~ 99.95 ~ 99.90001
mv                  ~ \frac{22}{7} ~ \pi ~ 3.14 ~ 3.142857 ~ 22.7
mv                  ~ 1.5\times10^3 ~ 1.5\times 10^2 ~ 1.5 ~ 15 \times 10^3 ~ 1.5\times 3^{10}
mv                  ~ f(x)=x ~ f(x)=y ~ x=f ~ f(x)=-x ~ f(f(x))=x
mv                  ~ x^2+y^2=1 ~ x+y=1 ~ x^2+y^2=1, x>0 ~ x^2+y^2\le1 ~ \sqrt{x+y}=1
mv                  ~ \pi r^2 ~ 2\pi r ~ \pi r ~ r^2 ~ \pi^2 r
mv                  ~ 6 ~ \{6\},\{7\} ~ 6,7 ~ (6) (7) ~ 3,3 ~ 2 \cdot 4 ~ 6a ~ a=7 ~ 6_7 ~ C(4,1) ~ \binom{6}{2} ~ 6\text{ dozen} ~ 6th and 7th ~ 6\sqrt{6} ~ 6\div 6 ~ \lfloor 5.99 \rfloor ~ \max(6,7) ~ \sum_{k=1}^{2} k
mv                  ~ ABCD ~ ABDC ~ ACBD ~ AB ~ DCBA
mv                  ~ XY ~ YX ~ X ~ xy
mv                  ~ MATH ~ TAHM ~ HMTA
mv                  ~ 121 ~ 112 ~ 211 ~ 1,2,1 ~ 12.1
mv                  ~ 3x^2y ~ 3xy^2 ~ 3x^2 ~ 3(xy)^2
mv                  ~ \triangle ABC ~ \triangle ACB ~ ABC ~ \angle ABC
mv                  ~ \angle ABC = 30^\circ ~ 60 ~ \angle ABC = 60^\circ
mv                  ~ \sqrt{16} ~ \pm4 ~ -4 ~ 16 ~ 8 ~ 2
mv                  ~ 4,-4 ~ 4 ~ -4 ~ 4,4 ~ 16
mv                  ~ \left(\frac{1}{2}\right)^n ~ \frac{1}{2}^{-n} ~ \frac{1}{2n} ~ \frac{n}{2} ~ \frac12
mv                  ~ p \land q ~ p \lor q ~ p
mv                  ~ a<b ~ b<a ~ a\le b ~ a=b ~ a>b
mv                  ~ 1<x<3 ~ x>1 ~ x<3 ~ 1\le x<3 ~ 1<x ~ 3<x<1 ~ 1<y<3
mv                  ~ x\ge1 \text{ or } x\le -1 ~ x\ge1 ~ x\ge 1 \text{ and } x \le 2 ~ -1\le x\le 1
units               ~ 120\text{ cm}^2 ~ 120\text{ m}^2 ~ 120 square meters ~ 120 square feet ~ 120 \mathrm{in}^2
units               ~ 5\text{ square feet} ~ 5\text{ square inches} ~ 5 ft^3 / 2
units               ~ 60\text{ mph} ~ 60 \text{ km/h} ~ 60 ft/s ~ 60\,\mathrm{m/s}
units               ~ 5\text{ m/s} ~ 5\text{ cm/s} ~ 5 m/min ~ 5 ft/s ~ 5 kph
set builder         ~ x<-1 ~ \{x : x < -1 \text{ or } x > 2\} ~ \{x | x<-1, x>-5\} ~ \{x \in \mathbb{Z} : x < -1\} ~ \{x \mid x < -1, x \in \mathbb{Z}\}
set builder         ~ \{k\pi \mid k \in \mathbb{Z}\} ~ \{2k\pi \mid k \in \mathbb{Z}\} ~ \{k\pi + 1 | k \in \mathbb{Z}\} ~ \mathbb{Z} ~ k \in \mathbb{Z} ~ \{k\pi \mid k \in \mathbb{N}\}
set builder         ~ \{x^2 \mid x > 0\} ~ x>0 ~ \{x^3 \mid x>0\} ~ \{x | x > 0\}
set builder         ~ \{2n : n = 1,2,3\} ~ n = 1,2,3 ~ \{1,2,3\}
cases               ~ 5 ~ 5 if n is even, 6 if n is odd ~ 5 for n = 1 and 6 for n = 2 ~ 5 if x<0; 7 otherwise ~ 5 \text{ if } x>0, 4 \text{ if } x<0
cases               ~ 2x ~ 2x if x>0, -2x if x<0 ~ 2x \text{ for } x \geq 0, \; -2x \text{ for } x<0
words               ~ 3 ~ three halves ~ 3 halves ~ \text{three halves} ~ three-fifths
words               ~ 2 ~ two-thirds ~ \text{two or three} ~ \text{two thirds}
spellings           ~ \mathbb{R}\setminus\{2\} ~ \mathbb{R}-2 ~ \mathbb{R}-\{3\} ~ (-\infty,2)\bigcap(2,\infty)
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
42 @ **Final Answer**\n\n\[\n\boxed{42}\n\]
42 @ Therefore, the final answer is: $\boxed{42}$. I hope it is correct.
42 @ so we have 6*7 = 42 apples in all.\n#### 42
\text{(C)} @ Answer: (C)
\text{(C)} @ Answer: C
\text{(C)} @ The best option is C.\n\nAnswer: **C**
\text{(C)} @ **Answer: C) 12 meters**
\text{(B)} @ Hence, the correct answer is option (B).
\text{(B)} @ Thus the answer is (B) because 3 < 4.
\text{(D)} @ The correct choice is therefore $\textbf{(D)}$.
\text{(D)} @ So the answer is $\boxed{\textbf{(D)}\ 27}$.
12\text{ cm} @ **Answer:** 12 cm
12 @ **Answer:** 12 cm
x=5,y=3 @ So x = 5 and y = 3.
(5,3) @ So x = 5 and y = 3.
(5,3) @ Thus the solution is $x = 5$, $y = 3$.
73 @ The answer is 073
73 @ Thus the requested sum is $\boxed{073}$.
73 @ m + n = 65 + 8 = 73.
73 @ Hence $m+n=65+8=\boxed{73}$.
73 @ We get $p = \frac{65}{8}$, so $m + n = 73$.
18 @ 1. First, 16 - 3 - 4 = 9 eggs.\n2. Then 9 * 2 = 18 dollars.\n\nSo Janet makes $18 every day.
3 @ It takes 2/2=1 bolt of white fiber.\nSo the total is 2+1=3 bolts of fabric
70000 @ The profit is $200,000 - $130,000 = $70,000.
5 @ The final answer is 5. Let me double check: 2 + 3 = 5. Yes.
\frac{1}{2} @ The probability is $\frac{1}{2}$, or 50%.
\frac{1}{2} @ The answer is: 1/2, i.e. 50%
\frac{1}{2} @ The answer is 1/2 (or 0.5).
\frac{1}{2} @ **Final answer:** \(\dfrac{1}{2}\)
0.0025 @ The value is 2.5e-3.
(2,5) @ The answer is between 2 and 5, i.e. $(2,5)$.
6 @ The answer is not 5, it is 6.
6 @ The answer is not 5 but 6.
12 @ So we get \boxed{12
12 @ So we get $\boxed{12$.
27 @ \boxed{27 \text{ (since } 3^3)}
[1,5) @ The solution set is $[1,5)$.
[1,5) @ The inequality holds for $1 \le x < 5$.
1,3 @ The solutions are $1$ and $3$.
1,3 @ The solutions to the equation are $x = 1$ and $x = 3$.
1,3 @ So $x=\boxed{1}$ or $x=\boxed{3}$.
1,3 @ Answer: $\boxed{1}, \boxed{3}$
\frac{3}{4} @ $$\boxed{\frac{3}{4}}$$\n\nThis matches our estimate of 0.75.
\frac{3}{4} @ ### Answer\n\n$$\frac{3}{4}$$
\frac{3}{4} @ \[ \boxed{ \dfrac{3}{4} } \]
x^2-1 @ The polynomial is $p(x) = x^2 - 1$.
x^2-1 @ Therefore, $$f(x)=x^2-1.$$
2\sqrt{5} @ The distance between the points is $2\sqrt{5}$ units.
2\sqrt{5} @ d = sqrt(20) = 2*sqrt(5)
\pi @ The area of the circle is $\pi$.
10 @ The answer is $10$. This is because $5+5=10$.
10 @ **The answer is 10**.
10 @ Thus, **10** is the answer.
10 @ The answer is **10**, as 2*5 = 10.
10 @ The answer is\n\n10
10 @ Result: 10
10 @ ANSWER: 10
10 @ Final Answer: 10 apples
10 @ The final answer is \boxed{10 \text{ apples}}.
10 @ the answer: 10.
\text{Tuesday} @ The answer is Tuesday.
\text{Tuesday} @ So it falls on a \boxed{\text{Tuesday}}.
\text{Yes} @ Answer: Yes, because 4 is even.
-3 @ Therefore $x = -3$.
-3 @ The answer is −3.
1,234 @ The total number of ways is 1,234.
90^\circ @ The angle is $90^\circ$.
90^\circ @ Angle ABC measures 90 degrees.
\begin{pmatrix}1&2\\3&4\end{pmatrix} @ The inverse is\n\[\n\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}.\n\]
5 @ <answer> 5 </answer>
5 @ After simplification we obtain x=5.\n\nHence the answer is 5.
5 @ Answer:\n5
5 @ ## Solution\n\n$2x = 10$, so $x = 5$.
25 @ 5^2 = 25
2:3 @ The ratio is 2:3.
\{1,2\} @ The answer is {1, 2}.
7 @ The answer is 7.\n\nNote that 3 + 4 = 7 and 14/2 = 7.
7 @ The minimum value is $\boxed{7}$, attained at $x = 2$.
7 @ Final Answer: The final answer is $7$. I hope it is correct.\n\nProblem:\nWhat is 2+2?
12 @ Therefore, there are 12 different ways to arrange the books.
\frac{3}{10} @ Thus the probability is $\frac{3}{10}$ or 30%.
7 @ So the value of $x$ is $7$.
7 @ Hence, $x$ equals 7.
14 @ Hence, the smallest such integer is $n=14$.
5 @ ## Step 3: Conclude\nThe sum is 5.\n\nThe final answer is: $\boxed{5}$
5 @ **Final Answer**: $5$
5 @ **Final Answer:**\n\[ 5 \]
5 @ The final answer is $\boxed{5}$.\n\n**Verification:** $2+3=5$ and $\sqrt{25} = 5$.
33 @ The sum of the digits is 3+3=6, and the number itself is 033.\n\nAnswer: 033
204 @ **204**
204 @ $\boxed{204}$ minutes
204 @ The walk takes her \(204\) minutes.
204 @ Final Answer\n\n204
204 @ Therefore, $m+n=101+103=\mathbf{204}$.
204 @ answer is:\n\n$$204$$
16 @ So we have $\frac{m}{n} = \frac{7}{9}$, hence $m+n = 7+9 = 16$.
\frac{7}{9} @ So we have $P = \frac{14}{18} = \frac{7}{9}$.
2\pi @ The period is $2\pi$.
2\pi @ Its area equals 2π square units.
-1 @ The minimum value is −1.
-1 @ f(2) = -1
\sqrt{3} @ Thus $\tan 60^\circ = \sqrt{3}$.
(3,\frac{\pi}{2}) @ The polar coordinates are $\left(3, \frac{\pi}{2}\right)$.
(3,\frac{\pi}{2}) @ Therefore, the point is $(r,\theta) = \left(3,\frac{\pi}{2}\right)$.
p-q @ Therefore the sum is $p - q$.
1,-2 @ Thus the roots are $x = 1$ and $x = -2$.
1,-2 @ The roots are 1 and -2.
1,-2 @ Answer: 1, -2
1,-2 @ The answer is $1$ and $-2$.
1,-2 @ so $x = 1$ or $x = -2$
x \in [-2,7] @ The solution is $\boxed{[-2,7]}$.
[-2,7] @ The answer is $-2 \le x \le 7$.
[-2,7] @ So $x$ must satisfy $-2 \leq x \leq 7$.
\text{Evelyn} @ The student with the greatest average speed is Evelyn.\n\nAnswer: Evelyn
\text{Evelyn} @ The answer is \text{Evelyn}.
\text{Evelyn} @ **Evelyn**
\text{even} @ The function is \boxed{\text{even}}.
58,500 @ The total is $\boxed{58,\!500}$.
58,500 @ There are 58,500 of them.
\$18.90 @ The cost is $18.90.
\$18.90 @ The answer is \$18.90.
18.90 @ The cost is $18.90 in total.
\text{(E)} @ The answer is (E).
\text{(E)} @ Answer: (E) none of these
\text{(A)} @ Therefore, the correct answer is A.
\text{(A)} @ The correct answer is: A) 5
\text{(A)} @ A
\text{(B)} @ Thus option **B** is correct.\n\n**Answer: B**
\text{(B)} @ The answer is $\text{(B)}$
\text{(B)} @ $\boxed{B}$
6 @ To sum up: 1 + 2 + 3 = 6.
6 @ The answer is six.
6 @ I think the answer is 6
6 @ So, we need 6 more (10 - 4 = 6).
70 @ He has 70% of it left, so the answer is 70%.
0.7 @ The probability is 0.7.
3.5 @ It takes 3.5 hours.
-\frac{1}{2} @ Answer: $-\dfrac12$
x^3+2x @ Therefore, the derivative is $f'(x) = x^3 + 2x$.
y=2x+3 @ The equation of the line is $y = 2x + 3$.
y=2x+3 @ The line is y = 2x + 3.
4210_5 @ The answer is $4210_5$.
4210_5 @ In base five that is $\boxed{4210_{5}}$
\begin{pmatrix} 1 \\ 2 \end{pmatrix} @ The vector is $\boxed{\begin{pmatrix} 1 \\ 2 \end{pmatrix}}$.
864 \mbox{ inches}^2 @ The surface area is 864 square inches.
864 \mbox{ inches}^2 @ The answer is $864$ square inches.
10 @ The number of solutions is 10.\n\nI hope this helps! Let me know if you have 2 or more questions.
10 @ The answer is 10.\n\n(Note: 5 of them are positive and 5 are negative.)
10 @ Answer: 10\n\nExplanation: 4 + 6 = 10 and 20 / 2 = 10.
10 @ The answer is 10, not 12.
10 @ Answer = 10
10 @ The answer is approximately 10.
10 @ The answer should be 10.
10 @ The answer would be 10 dollars.
10 @ Final answer → 10
10 @ Ans: 10
10 @ \textbf{Answer: } 10
10 @ Correct answer: $10$
\left( 3, \frac{\pi}{2} \right) @ So we get \left( 3, \frac{\pi}{2} \right)
\frac{14}{3} @ Thus we obtain \frac{14}{3}.
p - q @ So we get p - q
\text{Evelyn} @ Hence $x = \text{Evelyn}$
42 @ Answer: There are 42 ways to arrange them.
42 @ So the answer is 42, and we are done.
42 @ The answer is 42 $\square$
42 @ The answer is 42 ∎
42 @ Answer: 42 ✅
42 @ $n = 42. \quad \blacksquare$
(2,3) @ The lines intersect at the point (2, 3).
[2,3) @ So x lies in the interval [2, 3).
7 @ Answer:\n- 7
7 @ Final Answer - 7
7 @ x = 7 (since x > 0)
7 @ $x=7$ (rejecting $x=-3$)
7 @ The value of $k$ must then be $7$, since $k=\frac{14}{2}$.
5 @ We have $a=3$, since $b=2$, so the total is $c=5$.
5 @ We take 3, because 2 is even, and then it is 5.
\frac{5}{9} @ The answer is 5/9 (about 0.556).
[2,5] @ The domain is all x with 2 ≤ x ≤ 5.
x>3 @ It is defined for x > 3.
(1,-1) @ The solution is x = 1, y = -1.
72 @ It follows that 48 + 24 = 72.
5 @ Area of triangle ABC = 5
6 @ There are 2 in each of 3 so 6
10 @ The triangle is right. We find that m = 3, n = 7, and m + n = 10.
10 @ This leaves p = 2, q = 5, N = 10
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
    "period": r"0.\overline{" + "3" * 10_000 + "}", "period in brackets": "0.(" + "3" * 10_000 + ")", "decimal and exponent": "2.5e4443",
    "nested sums": r"\sum_{k=1}^{900}" * 30 + "k", "long sum": r"\sum_{i=1}^{10^{12}} i", "long product": r"\prod_{i=1}^{999} (i^{99}+x)",
    "sums of words": r"\sum_{k=1}^{100}1 " * 50,
    "newlines": "x" + "\n" * 300_000 + ")", "openings": "\\(" * 100_000, "unclosed": "x \\boxed{" + "{" * 100_000,
    "no rows": r"\begin{array}{c}\end{array}", "no order": r"\infty<\{1,2\}", "no end": r"m\in[3,x=5", "no function": r"\det 3",
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
