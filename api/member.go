package api

// Member returns the value of a member of a JSON object, as it stands there:
// the metadata or the spec of a stored object, say. It is nil if there is none
// of the name. The result shares the object's memory.
func Member(object []byte, name string) []byte {
	s := scanner{data: object}
	if !s.enter() || !s.find(name) {
		return nil
	}
	s.space()
	start := s.pos
	if !s.skip() {
		return nil
	}
	return object[start:s.pos]
}
