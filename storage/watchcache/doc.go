// Package watchcache is a Store in front of another.
package watchcache
