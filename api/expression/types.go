package expression

import apiservercel "k8s.io/apiserver/pkg/cel"

// The names of what expressions can see.
const (
	Object             = "object"
	OldObject          = "oldObject"
	Params             = "params"
	Request            = "request"
	Namespace          = "namespaceObject"
	Authorizer         = "authorizer"
	ResourceAuthorizer = "authorizer.requestResource"
	VariablesName      = "variables"
)

// members says which fields an object type has, and which of them are required.
type members map[string]*apiservercel.DeclType

func object(name string, required, optional members) *apiservercel.DeclType {
	fields := make(map[string]*apiservercel.DeclField, len(required)+len(optional))
	for n, t := range required {
		fields[n] = apiservercel.NewDeclField(n, t, true, nil, nil)
	}
	for n, t := range optional {
		fields[n] = apiservercel.NewDeclField(n, t, false, nil, nil)
	}
	return apiservercel.NewObjectType(name, fields)
}

func listOf(t *apiservercel.DeclType) *apiservercel.DeclType { return apiservercel.NewListType(t, -1) }

func mapOf(t *apiservercel.DeclType) *apiservercel.DeclType {
	return apiservercel.NewMapType(apiservercel.StringType, t, -1)
}

// requestType is the type of the variable request: an AdmissionRequest without
// the objects.
func requestType() *apiservercel.DeclType {
	text := apiservercel.StringType
	kind := object("kubernetes.GroupVersionKind", members{"group": text, "version": text, "kind": text}, nil)
	resource := object("kubernetes.GroupVersionResource", members{"group": text, "version": text, "resource": text}, nil)
	user := object("kubernetes.UserInfo", nil, members{
		"username": text, "uid": text, "groups": listOf(text), "extra": mapOf(listOf(text)),
	})
	return object("kubernetes.AdmissionRequest", members{
		"kind": kind, "resource": resource, "requestKind": kind, "requestResource": resource,
		"name": text, "operation": text, "userInfo": user,
	}, members{
		"subResource": text, "requestSubResource": text, "namespace": text,
		"dryRun": apiservercel.BoolType, "options": apiservercel.DynType,
	})
}

// namespaceType is the type of the variable namespaceObject.
func namespaceType() *apiservercel.DeclType {
	text, moment := apiservercel.StringType, apiservercel.TimestampType
	condition := object("kubernetes.NamespaceCondition", members{
		"status": text, "type": text, "lastTransitionTime": moment, "message": text, "reason": text,
	}, nil)
	return object("kubernetes.Namespace", members{
		"metadata": object("kubernetes.NamespaceMetadata", members{
			"name": text, "generateName": text, "namespace": text, "labels": mapOf(text), "annotations": mapOf(text),
			"UID": text, "creationTimestamp": moment, "deletionGracePeriodSeconds": apiservercel.IntType,
			"deletionTimestamp": moment, "generation": apiservercel.IntType, "resourceVersion": text, "finalizers": listOf(text),
		}, nil),
		"spec":   object("kubernetes.NamespaceSpec", members{"finalizers": listOf(text)}, nil),
		"status": object("kubernetes.NamespaceStatus", members{"conditions": listOf(condition), "phase": text}, nil),
	}, nil)
}
