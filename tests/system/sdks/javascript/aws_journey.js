// AWS's SDK for JavaScript, v3: stricter than botocore about timestamps, numbers and error codes.
import {
  CreateEndpointCommand,
  CreateEndpointConfigCommand,
  CreateModelCommand,
  DeleteEndpointCommand,
  DescribeEndpointCommand,
  SageMakerClient,
  paginateListEndpoints,
  waitUntilEndpointDeleted,
  waitUntilEndpointInService,
} from "@aws-sdk/client-sagemaker";
import {
  InvokeEndpointCommand,
  InvokeEndpointWithResponseStreamCommand,
  SageMakerRuntimeClient,
} from "@aws-sdk/client-sagemaker-runtime";

const [name, image, first, second, said] = process.argv.slice(2);
const sagemaker = new SageMakerClient();
const runtime = new SageMakerRuntimeClient();
const text = (bytes) => new TextDecoder().decode(bytes);

await sagemaker.send(
  new CreateModelCommand({
    ModelName: name,
    PrimaryContainer: { Image: image },
    ExecutionRoleArn: "arn:aws:iam::123456789012:role/any",
  }),
);
const variant = {
  VariantName: "main",
  ModelName: name,
  InitialInstanceCount: 1,
  InstancePools: [
    { InstanceType: first, Priority: 1 },
    { InstanceType: second, Priority: 2 },
  ],
};
await sagemaker.send(new CreateEndpointConfigCommand({ EndpointConfigName: name, ProductionVariants: [variant] }));
await sagemaker.send(new CreateEndpointCommand({ EndpointName: name, EndpointConfigName: name }));
await waitUntilEndpointInService({ client: sagemaker, maxWaitTime: 60, minDelay: 1, maxDelay: 1 }, { EndpointName: name });

const described = await sagemaker.send(new DescribeEndpointCommand({ EndpointName: name }));
const invoked = await runtime.send(
  new InvokeEndpointCommand({ EndpointName: name, Body: said, ContentType: "text/plain" }),
);
const stream = await runtime.send(
  new InvokeEndpointWithResponseStreamCommand({ EndpointName: name, Body: said, ContentType: "text/plain" }),
);
let streamed = "";
for await (const event of stream.Body) streamed += text(event.PayloadPart.Bytes);
const names = [];
for await (const page of paginateListEndpoints({ client: sagemaker }, { MaxResults: 1, NameContains: name })) {
  names.push(...page.Endpoints.map((each) => each.EndpointName));
}
await sagemaker.send(new DeleteEndpointCommand({ EndpointName: name }));
await waitUntilEndpointDeleted({ client: sagemaker, maxWaitTime: 60, minDelay: 1, maxDelay: 1 }, { EndpointName: name });
const refusal = await sagemaker.send(new DescribeEndpointCommand({ EndpointName: name })).catch((error) => error);

const pools = described.ProductionVariants[0].InstancePools;
console.log(
  JSON.stringify({
    created: described.CreationTime.toISOString(),
    counts: Object.fromEntries(pools.map((pool) => [pool.InstanceType, pool.CurrentInstanceCount])),
    whole: text(invoked.Body),
    streamed,
    names,
    refusal: [refusal.name, refusal.$metadata.httpStatusCode, refusal.$metadata.requestId.length > 0],
  }),
);
