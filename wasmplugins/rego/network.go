package rego

import (
	"net/netip"
)

func netBuiltins() map[string]builtin {
	overlap := func(c *call) any { return c.prefix(0).Overlaps(c.prefix(1)) }
	return map[string]builtin{
		"net.cidr_is_valid": func(c *call) any {
			s, ok := c.arg(0).(string)
			if !ok {
				return false
			}
			_, err := netip.ParsePrefix(s)
			return err == nil
		},
		"net.cidr_intersects": overlap,
		"net.cidr_overlap":    overlap,
		"net.cidr_contains": func(c *call) any {
			within := c.prefix(0)
			if a, err := netip.ParseAddr(c.text(1)); err == nil {
				return within.Contains(a)
			}
			p := c.prefix(1)
			return within.Bits() <= p.Bits() && within.Contains(p.Addr())
		},
		"net.cidr_expand": func(c *call) any {
			const most = 65536
			p := c.prefix(0)
			if p.Addr().BitLen()-p.Bits() > 16 {
				c.fits(-1)
			}
			c.pay(most>>(16-p.Addr().BitLen()+p.Bits()), 20)
			var out set
			for a := p.Masked().Addr(); p.Contains(a); a = a.Next() {
				out = append(out, a.String())
			}
			return newSet(out)
		},
	}
}

func (c *call) prefix(n int) netip.Prefix {
	p, err := netip.ParsePrefix(c.text(n))
	c.must(err)
	return p.Masked()
}
