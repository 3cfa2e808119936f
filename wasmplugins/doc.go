// Package wasmplugins runs the plugins that are kept in the API: it watches
// WasmModules and AdmissionPlugins, compiles what they name in the background,
// and judges writes with it.
//
// A Host is one end of the API server's admission chain (Mutator, Validator),
// the handler of the content subresource of WasmModules, and a client of the
// API for everything else. The parts:
//
//   - sync.go brings modules and plugins to what their objects say; a new
//     version is compiled beside the old one and takes its place in one step;
//   - table.go is what a request looks at: the plugins in order, with their
//     match rules;
//   - admit.go calls them;
//   - content.go and chunks.go store uploaded code;
//   - status.go writes what happened to the objects.
//
// The engine below knows nothing of admission, and this package nothing of
// WebAssembly: an adapter such as package native stands between.
//
// # What cannot happen
//
// Writes of the kinds in plugins.proa.io are never shown to plugins, so no
// plugin can keep an administrator from removing it. A plugin that fails is
// dealt with by its failurePolicy, within its limits, and its status says what
// happened.
package wasmplugins
