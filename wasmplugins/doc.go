// Package wasmplugins runs the plugins that are kept in the API, at every
// extension point.
//
// A Host is what the control plane is given. It puts together, from below:
//
//   - fuel and engine run guests under limits;
//   - abi is the byte contract, native and the packages of other ABIs the
//     adapters between it and the engine;
//   - library keeps the code of WasmModules: fetched, verified, compiled;
//   - runner keeps one guest running for each object that binds a module, and
//     capability answers its host calls;
//   - admit, schedule, access, convert, virtual and reconcile are the extension
//     points, scan asks admission plugins about the past.
//
// # What cannot happen
//
// Writes of the kinds in plugins.proa.io are never shown to plugins, so no
// plugin can keep an administrator from removing it. A plugin that fails is
// dealt with by its failurePolicy, within its limits, and its status says what
// happened. One that keeps failing is no longer called for a while.
package wasmplugins
