import time
from pathlib import Path
from tallyveil.safetab.plan import *
t=time.time()
p=read_plan(Path('/work/shared/data/safetab/safetab_p_NMFv7-2020'))
print(time.time()-t)
for r in p.runs:
    print(r.run, float(r.budget), r.witness)
    for s in r.sets: print(s.name, s.stability.groups, s.stability.formula, s.stability.total_only, s.keep_above, len(s.view.iterations), s.view.n_adaptive, s.stage_2.margin(Fraction(19,20)))
from tallyveil.accounting import compose
t=time.time(); c=compose(p.run('PR').event(),neighbours=NEIGHBOURS); print(len(c.alternatives)); print(c.epsilon(Fraction(1,10**10)), time.time()-t)
t=time.time(); c=compose(p.run('US').event(),neighbours=NEIGHBOURS); print(len(c.alternatives)); print(c.epsilon(Fraction(1,10**10)), time.time()-t)
