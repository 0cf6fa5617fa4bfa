import sys,time
from bench.cases.gradients import setup
s=setup("full")
for name in sys.argv[1:]:
    t=time.time(); o=s.jobs[name].measure()
    print(name,"took",round(time.time()-t,1))
    for f in o.figures: print("  ",f.label,round(f.value,3),f.unit,f.verdict)
    for x in o.timings: print("  ",x.name,round(x.best*1e3,1),"ms")
    for a in o.agreements: print("  ",a.holds,a.between,a.difference,a.tolerance)
    print("  ",o.notes,flush=True)
