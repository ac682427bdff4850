package fit

import (
	"memopt"
)

// bracket bounds the largest size: fits does, unless it is below the range, and above does not.
type bracket struct {
	size  Size
	fits  int64
	above int64
	total int64   // the fewest bytes that were reached at above; 0 if unknown
	price float64 // the overhead that was too much there
	end   int64   // no size from here on can fit
	tried bool    // a size was
}

// largest finds the largest size with a strategy, which is tried at a guess first.
func (f *finder) largest(k Kind, s memopt.Strategy, guess int64) (*Size, error) {
	b := &bracket{fits: f.over.Lo - 1, above: f.over.Hi + 1}
	if k == Plain && f.base != nil {
		guess = f.reach(f.base)
	}
	guess = max(guess, f.over.Lo)
	for least := false; b.fits+1 < b.above; {
		if guess <= b.fits || guess >= b.above {
			guess = b.fits + (b.above-b.fits)/2
		}
		if b.size.Stopped = b.tried && f.late(); b.size.Stopped {
			if b.fits >= f.over.Lo || least {
				break
			}
			guess, least = f.over.Lo, true // without it no size would be known
		}
		b.tried = true
		o, err := f.judge(guess, s)
		if err != nil {
			return nil, err
		}
		hint, err := f.hint(k, o.plan, b)
		if err != nil {
			return nil, err
		}
		if b.note(guess, o); o.fits {
			guess = max(hint, guess+1)
		} else {
			guess = min(hint, guess-1)
		}
	}
	return f.finish(k, b)
}

// note narrows the bracket.
func (b *bracket) note(n int64, o *outcome) {
	switch {
	case o.fits:
		b.fits, b.size.Plan, b.size.Total = n, o.plan, o.total
	default:
		b.above, b.total, b.price = n, o.total, o.price
		if b.size.Plan == nil {
			b.size.Total = o.total
		}
	}
}

// hint is the largest size up to where the placements of a plan keep live bytes within the limit;
// below the range if there is no such size.
func (f *finder) hint(k Kind, p *memopt.Plan, b *bracket) (int64, error) {
	formula, err := f.formulaOf(k, p)
	if err != nil || formula == nil {
		return (b.fits + b.above) / 2, err
	}
	return f.reach(formula), nil
}
