package httpapi

import "bytes"

// rawMetadata returns the metadata in an object's JSON, as it stands there. It
// trusts the JSON to be valid; it returns {} if there is none.
func rawMetadata(value []byte) []byte {
	pos := 1
	for pos < len(value) {
		if value[pos] == ',' || value[pos] <= ' ' {
			pos++
			continue
		}
		if value[pos] != '"' {
			break
		}
		end := skipString(value, pos)
		key := value[pos:end]
		for end < len(value) && (value[end] == ':' || value[end] <= ' ') {
			end++
		}
		pos = skipValue(value, end)
		if string(key) == `"metadata"` {
			return value[end:pos]
		}
	}
	return []byte("{}")
}

// skipString returns the position after the string that begins at pos.
func skipString(value []byte, pos int) int {
	for pos++; pos < len(value); pos++ {
		i := bytes.IndexAny(value[pos:], `"\`)
		if i < 0 {
			return len(value)
		}
		pos += i
		if value[pos] == '"' {
			return pos + 1
		}
		pos++ // what is escaped
	}
	return len(value)
}

// skipValue returns the position after the value that begins at pos.
func skipValue(value []byte, pos int) int {
	depth := 0
	for pos < len(value) {
		switch value[pos] {
		case '"':
			pos = skipString(value, pos)
		case '{', '[':
			depth++
			pos++
			continue
		case '}', ']':
			if depth == 0 {
				return pos
			}
			depth--
			pos++
		case ',':
			if depth == 0 {
				return pos
			}
			pos++
			continue
		default:
			pos++
			continue
		}
		if depth == 0 {
			return pos
		}
	}
	return pos
}
