package guest

// An Object is a JSON object that is put together. Its values may be what a
// Patch takes, other Objects, and slices of Objects, Values or any.
type Object struct {
	keys   []string
	values []any
}

// NewObject returns an empty object.
func NewObject() *Object { return &Object{} }

// Edit returns an object with the members of v, to be changed.
func Edit(v Value) *Object {
	o := &Object{}
	v.Keys(func(key string, value Value) bool {
		o.keys = append(o.keys, key)
		o.values = append(o.values, value)
		return true
	})
	return o
}

// Set sets a member.
func (o *Object) Set(key string, value any) *Object {
	for i, k := range o.keys {
		if k == key {
			o.values[i] = value
			return o
		}
	}
	o.keys = append(o.keys, key)
	o.values = append(o.values, value)
	return o
}

// Delete removes a member, if it is there.
func (o *Object) Delete(key string) *Object {
	for i, k := range o.keys {
		if k == key {
			o.keys = append(o.keys[:i], o.keys[i+1:]...)
			o.values = append(o.values[:i], o.values[i+1:]...)
			break
		}
	}
	return o
}

// Rename gives a member another key, if it is there.
func (o *Object) Rename(from, to string) *Object {
	for i, k := range o.keys {
		if k == from {
			o.keys[i] = to
		}
	}
	return o
}

// JSON returns the object, encoded.
func (o *Object) JSON() []byte { return o.encode(nil) }

func (o *Object) encode(out []byte) []byte {
	out = append(out, '{')
	for i, k := range o.keys {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(quote(out, k), ':')
		out = encode(out, o.values[i])
	}
	return append(out, '}')
}

// list appends an array of anything.
func list[T any](out []byte, items []T) []byte {
	out = append(out, '[')
	for i, item := range items {
		if i > 0 {
			out = append(out, ',')
		}
		out = encode(out, item)
	}
	return append(out, ']')
}
