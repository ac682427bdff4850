"""Prints testdata/sympy.txt: expressions and how sympy writes them.

    python3 golden.py > sympy.txt

A line "text => printed" says that str() of the expression is printed. "text @ num/den => printed"
says so of the expanded expression times Float(num/den). Symbols are integers. Forms that
memopt simplifies differently on purpose, such as floor(x/2 + 1/2), are not here: the file is
about order and spelling.
"""

import random

import sympy
from sympy import Float, expand_mul, sympify

NAMES = ["batch", "seq", "a", "b", "x", "N", "S", "I", "E", "n_heads", "Z9", "_u"]
LOCALS = {name: sympy.Symbol(name, integer=True) for name in NAMES}

HAND = """
0
-7
batch*seq**2
1 + 2*batch
1 - x
1 - 3*x
1 - x**2
1 - x*a
2 - x - a
-1 - x
-x + a
a - x
-a - x
seq*batch*1024
S + N + I + E
N*S*I*E
x**10 + x**2 + x**3 + x
(a + b)**3
(a - b)*(a + b)
(x + 1)*(a - 2)*(b + 3)
9223372036854775807*x
-9223372036854775808*x
a - 9223372036854775808*x
floor(batch/2)
ceiling(batch/2)
batch//2
floor(batch/2) + 1
1 - floor(x/2)
1 - ceiling(x/3)
floor(3*x/4)
floor((x + 1)/3)
floor((3*x + 2*a + 1)/4)
floor((x*a + 1)/3)*x
floor(x**2/7)
ceiling((x + a)/4)
ceiling(x*a/4)
floor(x/a)
ceiling(x/a)
floor(5/a)
floor(1/(a*b))
floor(2*x/(3*a))
floor((x + 1)/a)
floor((x + b)/(2*a*b))
floor((x + 1)/(a + 1))
floor(x/(a + 1))
floor(x*b/(a + 1))
floor(3*x**2/(2*a**2))
ceiling((x + b)/(2*a))
Mod(x, 2)
Mod(x, a)
Mod(x + a, 3)
Mod(x + 2*a, b)
x % 5
2*Mod(x, 3) + 1
a - 2*Mod(x, 3)
-a*Mod(x, 3)
Mod(x, 3)**2
2*Mod(x, 3)**2
a - Mod(x, 3)**2*b
floor(a/Mod(x, 3))
Max(x, a)
Max(a, x, 3)
Min(x, 2*a + 1)
Max(2*x, x + 1, a**2, x*a, floor(x/2))
Min(Max(x, a), b)
Max(Min(x, a), b)
Max(x, a)**2*b
x*floor(a/2)*Max(b, 3)
x + floor(x/3) + ceiling(x/3) + Mod(x, 3) + Max(x, a) + Min(x, a) + 1
x**2 + x*floor(x/3) + a*floor(x/3) + floor(x/3)**2
floor(Max(x, a)/2)
floor((Mod(x, 3) + 2*a)/5)
floor(x/2)*floor(x/3)*ceiling(x/2)
Max(floor(a/2), ceiling(a/5), a*b, 2*b, b)
floor(x*floor(a/3)/2)
floor((floor(x/a) + b)/3)
Mod(floor(x/2), 3)
floor(x/(2*floor(a/3)))
floor(Mod(x, 3)*a/Max(a, b))
"""

FLOATS = """
batch*seq**2 @ 128/1
96*batch*seq + 64*batch @ 1/1
batch @ 1/1
-batch @ 1/1
1 - batch @ 1/2
1 - 3*batch @ -1/2
3*batch - 1 @ -1/2
batch*seq - a + 7 @ 1/3
3*x + a @ 1/3
x @ 2/3
x @ 1/1000000
x @ 1/100000
x @ 1/10000
x @ 1/3000000
100000000000000*x @ 1/1
1000000000000000*x @ 1/1
9007199254740993*x @ 1/1
123456789012345678*x @ 1/1
9223372036854775807*x @ 9/1
999999999999999999*x @ 1/1
999999999999999*x @ 1/10
9999999999999995*x @ 1/10
2000000000000001*x @ 1/2
2000000000000003*x @ 1/2
floor(batch/2)*seq + 3 @ 4/1
Max(batch, seq)*2 + Mod(a, 3) @ 1/8
4*ceiling(a/3) - 2 @ 1/4
"""

rng = random.Random(20240229)


def product(names):
    """A random product of powers, in random order."""
    chosen = rng.sample(names, rng.randint(1, 3))
    return "*".join(n if rng.random() < 0.6 else f"{n}**{rng.randint(2, 4)}" for n in chosen)


def polynomial(terms):
    parts = [f"{rng.choice([1, -1, 2, 3, -5, 12, 1024])}*{product(NAMES)}" for _ in range(terms)]
    if rng.random() < 0.5:
        parts.append(str(rng.choice([1, -1, 7, -12])))
    rng.shuffle(parts)
    return " + ".join(f"({p})" for p in parts)


def linear(names, limit):
    """A sum whose coefficients are in [1, limit), the first being 1."""
    chosen = rng.sample(names, rng.randint(1, 3))
    return " + ".join([chosen[0]] + [f"{rng.randint(1, limit - 1)}*{n}" for n in chosen[1:]])


def atom():
    k = rng.choice([2, 3, 5, 7])
    kind = rng.randrange(7)
    if kind == 0:
        return f"floor(({linear(NAMES, k)})/{k})"
    if kind == 1:
        return f"ceiling(({linear(NAMES, k)})/{k})"
    if kind == 2:
        return f"Mod({linear(NAMES, k)}, {k})"
    if kind == 3:
        return f"floor(({linear(NAMES[:6], 4)})/{rng.choice(NAMES[6:])})"
    if kind == 4:
        return f"ceiling({product(NAMES[:6])}/{product(NAMES[6:])})"
    names = rng.sample(NAMES, 3)
    function = "Max" if kind == 5 else "Min"
    return f"{function}({names[0]}, {names[1]}*{names[2]}, {rng.choice(['3', names[2]])})"


def composite():
    parts = []
    for _ in range(rng.randint(1, 4)):
        factors = [str(rng.choice([1, -1, 3]))] + [atom() for _ in range(rng.randint(0, 2))]
        if rng.random() < 0.5:
            factors.append(product(NAMES))
        rng.shuffle(factors)
        parts.append("*".join(f"({f})" for f in factors))
    return " + ".join(parts)


def show(text):
    value = expand_mul(sympify(text, locals=LOCALS), deep=False)
    if value.is_Pow:
        value = value.expand()
    print(f"{text} => {value}")


def show_float(text, num, den):
    value = sympify(text, locals=LOCALS) * Float(num / den)
    print(f"{text} @ {num}/{den} => {expand_mul(value, deep=False)}")


print(f"# sympy {sympy.__version__}; made by testdata/golden.py, which says what the lines mean.")
for line in HAND.strip().splitlines():
    show(line)
for _ in range(150):
    show(polynomial(rng.randint(1, 6)))
for _ in range(150):
    show(composite())
for line in FLOATS.strip().splitlines():
    expression, scale = line.split(" @ ")
    show_float(expression, *map(int, scale.split("/")))
for _ in range(60):
    show_float(polynomial(rng.randint(1, 5)), rng.randint(1, 4096), rng.choice([1, 2, 3, 8, 1000]))
