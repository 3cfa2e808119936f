// Package etcd keeps items in etcd: in a server inside this process (Start) or
// in a cluster elsewhere (Dial). The code that reads and writes is the same.
//
// # The server in the process
//
// Start runs one etcd member on a data directory. It has no listener at all:
// neither clients nor peers can reach it, only this process, by function
// calls. Its files are those of any etcd member, so that a stock etcd can be
// started on the directory later. A lock file keeps a second process out.
//
// A write is acknowledged after it is in the write-ahead log on disk, so that
// killing the process at any moment loses none. As there is one member, what
// it has applied is the truth: reads need no round through consensus.
//
// # When storage fails
//
// Every call ends within a few seconds. Calls that fail for a reason outside
// the request (no connection, no leader, no space) return ErrUnavailable, and
// the store works again by itself when the reason is gone:
//
//   - A cluster elsewhere that cannot be reached: the client reconnects.
//   - A disk that runs full: writes are refused while less than
//     Config.MinFreeBytes is left, because etcd cannot survive a failing
//     write to its log. They go on when there is space again.
//   - The quota of the database is used up: etcd refuses writes other than
//     deletes. The server in the process compacts and defragments itself, and
//     lifts the alarm when enough has been deleted. A cluster elsewhere is
//     its operator's to repair.
//
// If the log cannot be written all the same, the process ends, as etcd does:
// what was acknowledged is on disk, and a restart finds it.
//
// # History
//
// The store compacts itself: it keeps the history of at least
// Config.Compaction and at most twice that.
package etcd
