// Package informers keeps local copies of what the API server stores, and
// tells handlers what changes in them.
//
// The parts, in the order in which a change goes through them:
//
//   - a Reflector lists and then watches a Source, resumes where it was when
//     the watch breaks, and starts afresh when its revision is gone;
//   - a DeltaFIFO holds what has happened to each object until somebody takes
//     it, joining what happened to one object while it waited;
//   - an Indexer is the local copy, with indices;
//   - an Informer connects the three and feeds its handlers.
//
// Usually one Factory is shared by everything in a process:
//
//	factory := informers.NewFactory(informers.Config{REST: rest, Log: log})
//	pods := informers.For[*corev1.Pod](factory)
//	pods.AddHandler(informers.Handler[*corev1.Pod]{Add: ...})
//	go factory.Run(ctx)
//	err := pods.WaitForSync(ctx)
//
// # What a handler may rely on
//
// Each handler is called from one goroutine of its own, in the order of the
// changes of each object. A slow handler delays nobody but itself: its changes
// wait in memory. A handler may miss states that an object went through while
// the connection was down, but never the last one; a deletion that was missed
// is delivered when it is found out, with the last known state. An object that
// was deleted and created again meanwhile is a Delete and an Add.
//
// # What a caller must not do
//
// Objects are shared by everybody in the process. Nobody may change one:
// DeepCopy first.
package informers
