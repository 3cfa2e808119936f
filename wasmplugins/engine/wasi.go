package engine

import (
	"encoding/binary"
	"time"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"
)

// WASI preview 1, as far as a guest without any capability needs it.
const wasiModule = "wasi_snapshot_preview1"

// Error numbers of WASI.
const (
	wasiOK     = 0
	wasiBadF   = 8
	wasiFault  = 21
	wasiInval  = 28
	wasiNoSys  = 52
	clockTicks = 20 * time.Millisecond
)

// epoch is where the guests' monotonic clock begins.
var epoch = time.Now() //nolint:gochecknoglobals // a constant of the process

// wasi are the functions that do something. All others answer ENOSYS.
var wasi = map[string]func(i *Instance, s []uint64) uint32{ //nolint:gochecknoglobals // a constant in all but name
	"sched_yield":    func(*Instance, []uint64) uint32 { return wasiOK },
	"args_sizes_get": argsSizesGet,
	"environ_sizes_get": func(i *Instance, s []uint64) uint32 {
		return i.put32(s[0], 0) | i.put32(s[1], 0)
	},
	"args_get":       argsGet,
	"environ_get":    func(*Instance, []uint64) uint32 { return wasiOK },
	"clock_res_get":  func(i *Instance, s []uint64) uint32 { return i.put64(s[1], uint64(clockTicks)) },
	"clock_time_get": clockTimeGet,
	"random_get": func(i *Instance, s []uint64) uint32 {
		b, ok := i.Read(uint32(s[0]), uint32(s[1]))
		if !ok {
			return wasiFault
		}
		i.Charge(int64(len(b)) >> 2)
		i.fillRandom(b)
		return wasiOK
	},
	"fd_read":             fdRead,
	"fd_write":            fdWrite,
	"fd_close":            func(*Instance, []uint64) uint32 { return wasiBadF },
	"fd_prestat_get":      func(*Instance, []uint64) uint32 { return wasiBadF },
	"fd_fdstat_get":       fdStat,
	"fd_fdstat_set_flags": func(*Instance, []uint64) uint32 { return wasiOK },
	"poll_oneoff":         pollOneoff,
}

// wasiImports makes the functions that a module imports, so that a newer or
// older set of them links too.
func wasiImports(imported []api.FunctionDefinition) []Import {
	var out []Import
	seen := map[string]bool{}
	for _, f := range imported {
		mod, name, _ := f.Import()
		if mod != wasiModule && mod != "wasi_unstable" || seen[mod+name] {
			continue
		}
		seen[mod+name] = true
		i := Import{Module: mod, Name: name, Params: f.ParamTypes(), Results: f.ResultTypes()}
		impl := wasi[name]
		switch {
		case name == "proc_exit" && len(i.Params) == 1:
			// The module stays open: the instance is reset, not gone.
			i.Call = func(_ *Instance, s []uint64) { panic(sys.NewExitError(uint32(s[0]))) }
		case len(i.Results) != 1:
			i.Call = func(*Instance, []uint64) { panic(sys.NewExitError(wasiNoSys)) }
		case impl == nil || len(i.Params) < wasiArity[name]:
			i.Call = func(_ *Instance, s []uint64) { s[0] = wasiNoSys }
		default:
			i.Call = func(i *Instance, s []uint64) { s[0] = uint64(impl(i, s)) }
		}
		out = append(out, i)
	}
	return out
}

// wasiArity is how many parameters an implementation looks at: a module may
// import the name with another signature.
var wasiArity = map[string]int{ //nolint:gochecknoglobals // a constant in all but name
	"args_sizes_get": 2, "args_get": 2, "fd_read": 4, "environ_sizes_get": 2, "clock_res_get": 2, "clock_time_get": 3,
	"random_get": 2, "fd_write": 4, "fd_fdstat_get": 2, "poll_oneoff": 4,
}

func (i *Instance) put32(ptr uint64, v uint32) uint32 {
	if i.memory == nil || !i.memory.WriteUint32Le(uint32(ptr), v) {
		return wasiFault
	}
	return wasiOK
}

func (i *Instance) put64(ptr, v uint64) uint32 {
	if i.memory == nil || !i.memory.WriteUint64Le(uint32(ptr), v) {
		return wasiFault
	}
	return wasiOK
}

// monotonic advances in steps: a Go guest's collector needs a clock that moves,
// a guest that would measure the host gets a blunt one.
func monotonic() time.Duration { return time.Since(epoch).Truncate(clockTicks) + clockTicks }

func clockTimeGet(i *Instance, s []uint64) uint32 {
	switch uint32(s[0]) {
	case 0:
		return i.put64(s[2], uint64(i.wall.UnixNano()))
	case 1, 2, 3:
		return i.put64(s[2], uint64(monotonic()))
	}
	return wasiInval
}

func fdWrite(i *Instance, s []uint64) uint32 {
	level := Notice
	switch uint32(s[0]) {
	case 1:
	case 2:
		level = Warn
	default:
		return wasiBadF
	}
	count := uint32(s[2])
	if count > 1024 {
		return wasiInval
	}
	vecs, ok := i.Read(uint32(s[1]), count*8)
	if !ok {
		return wasiFault
	}
	written := uint32(0)
	for ; len(vecs) > 0; vecs = vecs[8:] {
		b, ok := i.Read(binary.LittleEndian.Uint32(vecs), binary.LittleEndian.Uint32(vecs[4:]))
		if !ok {
			return wasiFault
		}
		i.Charge(10 + int64(len(b))>>6)
		if !i.keep(level, b) {
			i.out.write(level, b)
		}
		written += uint32(len(b))
	}
	return i.put32(s[3], written)
}

// fdStat says that the standard streams are character devices.
func fdStat(i *Instance, s []uint64) uint32 {
	if uint32(s[0]) > 2 {
		return wasiBadF
	}
	b, ok := i.Read(uint32(s[1]), 24)
	if !ok {
		return wasiFault
	}
	clear(b)
	b[0] = 2
	return wasiOK
}

// pollOneoff returns at once: sleeping guests spin through their fuel.
func pollOneoff(i *Instance, s []uint64) uint32 {
	n := uint32(s[2])
	if n == 0 || n > 1024 {
		return wasiInval
	}
	in, ok := i.Read(uint32(s[0]), n*48)
	if !ok {
		return wasiFault
	}
	out, ok := i.Read(uint32(s[1]), n*32)
	if !ok {
		return wasiFault
	}
	i.Charge(100 + int64(n))
	for ; len(in) > 0; in, out = in[48:], out[32:] {
		clear(out[:32])
		copy(out, in[:8]) // user data
		out[10] = in[8]   // type
		if in[8] != 0 {
			binary.LittleEndian.PutUint16(out[8:], wasiBadF)
		}
	}
	return i.put32(s[3], n)
}
