package api

import "strconv"

// SetRevision returns a copy of the JSON object value with the revision as
// metadata.resourceVersion, in place of one that is there. Metadata that is
// missing or no object is made. What is not a JSON object comes back as it is.
//
// Where a name stands twice in an object, the first counts.
func SetRevision(value []byte, rev int64) []byte {
	var digits [20]byte
	number := strconv.AppendInt(digits[:0], rev, 10)

	s := scanner{data: value}
	if !s.enter() {
		return value
	}
	top := s.pos
	if !s.find("metadata") {
		return splice(value, top, top, `"metadata":{"resourceVersion":"`, number, `"}`, s.emptyAt(top))
	}
	s.space()
	start := s.pos
	if !s.enter() {
		if !s.skip() {
			return value
		}
		return splice(value, start, s.pos, `{"resourceVersion":"`, number, `"}`, true)
	}
	first := s.pos
	if !s.find("resourceVersion") {
		return splice(value, first, first, `"resourceVersion":"`, number, `"`, s.emptyAt(first))
	}
	s.space()
	start = s.pos
	if !s.skip() {
		return value
	}
	return splice(value, start, s.pos, `"`, number, `"`, true)
}

// emptyAt says whether the object whose first member would be at pos has none.
func (s *scanner) emptyAt(pos int) bool {
	e := scanner{data: s.data, pos: pos}
	return e.space() == '}'
}

// splice puts before, number and after in place of value[from:to], and a comma
// behind them unless last.
func splice(value []byte, from, to int, before string, number []byte, after string, last bool) []byte {
	n := len(value) - (to - from) + len(before) + len(number) + len(after)
	if !last {
		n++
	}
	out := make([]byte, 0, n)
	out = append(out, value[:from]...)
	out = append(out, before...)
	out = append(out, number...)
	out = append(out, after...)
	if !last {
		out = append(out, ',')
	}
	return append(out, value[to:]...)
}

// dropRevision returns value without metadata.resourceVersion. It reuses
// value's memory.
func dropRevision(value []byte) []byte {
	s := scanner{data: value}
	if !s.enter() || !s.find("metadata") || !s.enter() {
		return value
	}
	for {
		s.space()
		start := s.pos // at the comma before the member, or at its key
		key, ok := s.key()
		if !ok || !s.skip() {
			return value
		}
		if !sameKey(key, "resourceVersion") {
			continue
		}
		end := s.pos
		if value[start] != ',' && s.space() == ',' {
			end = s.pos + 1
		}
		return append(value[:start], value[end:]...)
	}
}
