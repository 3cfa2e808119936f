// Package guest is the kit for writing plugins of Proa in Go.
//
// A plugin is a package main that registers its functions in an init function
// and has an empty main:
//
//	func init() { guest.OnAdmit(admit) }
//
//	func main() {}
//
//	func admit(r *guest.Request) guest.Answer {
//		if r.Object.Get("metadata", "labels", "team").Missing() {
//			return guest.Deny("the label team is missing")
//		}
//		return guest.Allow()
//	}
//
// Build it with the Go toolchain alone:
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -ldflags='-s -w' -o plugin.wasm .
//
// or with TinyGo, which makes a smaller and quicker plugin:
//
//	tinygo build -target=wasip1 -buildmode=c-shared -scheduler=none -no-debug -o plugin.wasm .
//
// Objects are read where they lie: a Value is a piece of the request's JSON,
// and Get walks it without decoding anything else. Whoever prefers structs
// passes Value.Raw to encoding/json, at some ten times the cost. An Object puts
// one together, or edits one.
//
// Other points have functions of their own: OnAuthorize, OnAuthenticate,
// OnConvert, OnServe, OnReconcile, and OnPrepare, OnFilter, OnScore and others
// of the scheduler. KubeGet and the functions beside it call the server, as far
// as the module's manifest wants and the binding grants it.
//
// Every call begins in the state that the plugin was in after it was
// configured: what a call stores in a variable is gone in the next. There is no
// file, network, or environment; the clock stands still during a call.
//
// The package has no dependencies beyond the standard library, and builds on
// every platform, so that a plugin's functions can be tested by go test: see
// Answer's fields, NewRequest and Mock.
//
// The kits of Rust, AssemblyScript and C stand in the folders beside, and have
// the same shape.
package guest
