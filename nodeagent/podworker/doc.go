// Package podworker decides, without doing anything itself, what happens next
// to one pod on its node, and what the pod's status is.
//
// The caller keeps a loop for each pod:
//
//	for {
//		observed := what the runtime and the loop's own memory say
//		write podworker.Status(pod, observed, now)
//		action, wake := podworker.Step(pod, observed, now)
//		do the action, or if it is Nothing wait for a change or for wake
//	}
//
// Step returns one action and is then asked again with what came of it. It
// remembers nothing: the number of restarts and the length of a back-off are
// read from the containers themselves, so that an agent which starts anew, on
// a runtime with running containers, goes on where the last one stopped. What
// the runtime cannot remember (a pull that failed) is in Observed, kept by the
// caller, and costs no more than an early retry when it is lost.
//
// The caller must
//   - give every sandbox and container that the runtime has for the pod's UID,
//     whatever their state;
//   - after an action, bring Observed up to date before it calls Step again;
//   - record failures with Failure.Add, and clear them on success.
//
// The order of a pod's life: volumes, sandbox, init containers one after the
// other, containers; when it ends, containers are stopped before the sandbox,
// and Finish comes when nothing runs any more.
package podworker
