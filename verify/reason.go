package verify

// Reason says in a word why a check did not pass. Controllers compare and count it; a worker of another version may send words that are not
// in this list.
type Reason string

// The reasons of checks that failed.
const (
	ReasonTimeout       Reason = "Timeout"       // no answer, or not all of it, in time
	ReasonRefused       Reason = "Refused"       // the connection, or by a DNS server the question, was refused
	ReasonUnreachable   Reason = "Unreachable"   // there is no route to the address
	ReasonReset         Reason = "Reset"         // the server closed the connection before it answered
	ReasonServerFailure Reason = "ServerFailure" // a DNS server answered SERVFAIL
	ReasonNoSuchName    Reason = "NoSuchName"    // a DNS server answered NXDOMAIN, or has no address under the name
	ReasonWrongAnswer   Reason = "WrongAnswer"   // an answer came, and it is not what it must be
	ReasonBadAnswer     Reason = "BadAnswer"     // an answer came that is none in this protocol
	ReasonTooLarge      Reason = "TooLarge"      // the answer is greater than the check reads
	ReasonWrongStatus   Reason = "WrongStatus"   // another HTTP status than the expected one
	ReasonCertificate   Reason = "Certificate"   // the server's certificate could not be verified
	ReasonTLS           Reason = "TLS"           // TLS failed otherwise
	ReasonUnauthorized  Reason = "Unauthorized"  // the API server did not accept the worker's token
	ReasonWrongAccount  Reason = "WrongAccount"  // the API server takes the worker for another account
	ReasonNoToken       Reason = "NoToken"       // the Pod has no token, CA or address of the API server
	ReasonNotServing    Reason = "NotServing"    // the kubelet answered the API server with an error
	ReasonNoService     Reason = "NoService"     // the Service does not exist or has no address
	ReasonError         Reason = "Error"         // any other failure; the message has it
)

// The reasons of checks that were skipped.
const (
	ReasonContainer Reason = "Container" // another container of the Pod is the check
	ReasonNotInPod  Reason = "NotInPod"  // a dry run outside a cluster cannot ask this
	ReasonColdStart Reason = "ColdStart" // the cluster does not have yet what the check asks
)
